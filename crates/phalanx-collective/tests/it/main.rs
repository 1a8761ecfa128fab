//! The integration tests of this crate, in one binary.

mod failures;
mod processes;
mod results;
mod support;
