//! The integration tests of this crate, in one binary.

mod any_text;
mod documents;
mod mistakes;
mod task_config;
