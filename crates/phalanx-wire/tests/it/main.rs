//! The integration tests of this crate, in one binary.

mod encryption;
mod lanes;
mod strangers;
mod support;
