//! Tests over several crates or processes, as one binary: each binary would link Burn once more.
//!
//! Jobs of processes: `coordinated`, `documents`, `durable`, `estimator_processes`, `fit_processes`, `mirrored`, `one_program`, `processes`, `returning`, `starting`,
//! `two_tower`. Jobs inside the test process: all others.

mod canned;
mod checkpoints;
mod click_models;
mod conflicts;
mod coordinated;
mod documents;
mod durable;
mod estimator;
mod estimator_processes;
mod estimator_strategies;
mod fit_processes;
mod hostile;
mod input;
mod ledger;
mod mirrored;
mod model_fn;
mod one_program;
mod parts;
mod processes;
mod returning;
mod starting;
mod store;
mod sync;
mod two_tower;
