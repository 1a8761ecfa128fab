//! What tests and measurements of this repository need beyond the API of programs (feature `testing`).

pub mod connections;
mod log_recorder;

pub use log_recorder::{LogEvent, LogRecorder};
