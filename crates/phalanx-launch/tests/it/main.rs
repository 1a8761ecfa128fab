//! Real launchers of real processes.

mod launching;
mod leaving_nothing;
mod staging;
mod support;
mod tasks_environment;
mod trouble;
mod usage;
