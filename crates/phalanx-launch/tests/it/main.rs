//! Real launchers of real processes.

mod launching;
mod leaving_nothing;
mod support;
mod trouble;
