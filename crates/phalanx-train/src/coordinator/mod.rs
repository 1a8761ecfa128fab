//! The central way of training: a chief that hands steps to whichever worker is free, and survives the loss of workers.
//!
//! | read | for |
//! | --- | --- |
//! | [`ParameterServerStrategy`] | a job with a coordinator: who does what |
//! | [`Steps`], [`StepContext`] | what workers can be asked to do, and what a step sees |
//! | [`Coordinator`] | the chief: schedule, join, fetch |
//! | [`ShardedVariable`] | where the parts of a variable are |
//!
//! Which worker runs what, and what becomes of a lost worker's steps, is decided by
//! [`phalanx_cluster::schedule`], which is pure; here are the threads and messages around it.

mod asker;
mod chief;
mod context;
mod desk;
mod inbox;
mod inputs;
mod remote_value;
mod shared;
mod steps;
mod strategy;
mod variables;
mod watcher;
mod worker;

pub use chief::{Coordinator, Staleness};
pub use context::StepContext;
pub use remote_value::RemoteValue;
pub use steps::Steps;
pub use strategy::ParameterServerStrategy;
pub use variables::{ShardedVariable, VariableShard};

pub(crate) use desk::Desk;
