//! The `phalanx` command as users run it.

mod commands;
mod data;
mod demo;
mod jobs;
mod predictions;
mod transcripts;
