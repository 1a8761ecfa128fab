//! The integration tests of this crate, in one binary.

mod lanes;
mod strangers;
mod support;
