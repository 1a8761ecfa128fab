//! Jobs described by a file, from parsing to prediction.

mod common;
mod dirty_data;
mod jobs;
mod mistakes;
mod predictions;
mod preparation;
mod run_directories;
mod schema;
mod set;
mod statistics;
