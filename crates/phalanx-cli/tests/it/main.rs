//! The `phalanx` command as users run it.

mod commands;
mod data;
mod demo;
mod directories;
mod evaluator;
mod head;
mod jobs;
mod predictions;
mod transcripts;
