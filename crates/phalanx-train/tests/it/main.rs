//! Jobs, strategies and `fit` in one process.

mod backups;
mod checkpoints;
mod clusters;
mod coordinator;
mod coordinator_fit;
mod coordinator_steps;
mod coordinator_sync;
mod custom_loops;
mod fit;
mod fit_tables;
mod overlap;
mod own_objectives;
mod preprocessing;
mod reports;
mod run_dirs;
mod saved_model;
mod schedules;
mod strategies;
mod summaries;
mod support;
mod trainer;
mod training;
