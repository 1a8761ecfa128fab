//! Real launchers of real processes.

mod launching;
mod leaving_nothing;
mod support;
mod tasks_environment;
mod trouble;
mod usage;
