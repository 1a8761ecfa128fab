//! Training with a coordinator: a chief that hands steps to whichever worker is free, and survives the loss of workers.
//!
//! | read | for |
//! | --- | --- |
//! | [`Strategy::coordinate`](crate::Strategy::coordinate) | a job with a coordinator |
//! | [`StepFunctions`], [`StepHandle`] | the steps that workers run, and what names one |
//! | [`StepContext`] | a step's input, resources, metrics and model |
//! | [`Coordinator`] | the chief: schedule, join, fetch |
//! | [`ShardedVariable`] | a variable and its shards |
//!
//! [`phalanx_cluster::schedule`], which is pure, decides which worker runs which step and what happens to the steps of a lost
//! worker; here are the threads and messages around it.

mod chief;
mod codec;
mod context;
mod dataset_part;
mod handle;
mod inputs;
mod messages;
mod metrics;
mod on_servers;
mod other_tasks;
mod outcomes;
mod remote_value;
mod service;
mod state;
mod step_functions;
mod step_poller;
mod step_queue;
mod variables;
mod watcher;
mod worker;

pub(crate) use chief::Call;
pub use chief::{Coordinator, Staleness};
pub use context::StepContext;
pub use dataset_part::DatasetPart;
pub(crate) use handle::RegistryId;
pub use handle::{DatasetHandle, Handle, MetricHandle, PerWorker, ResourceHandle, StepHandle};
pub use remote_value::RemoteValue;
pub use step_functions::StepFunctions;
pub use variables::{ShardedVariable, VariableShard};

pub(crate) use on_servers::{OnServers, ProgramModel};
pub(crate) use other_tasks::{ended_early, stop_reason, wait_for_confirmations, wait_for_trainers};
pub(crate) use outcomes::{confirm, wait_for_outcome};
pub(crate) use service::CoordinatorService;
