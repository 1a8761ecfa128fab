//! Training with many tasks: servers and how they find each other, the worker's loop, and the supervisor around it.
//!
//! | read | for |
//! | --- | --- |
//! | [`Server`] | a task's life: it listens, says hello to the chief, and ends when the job ends |
//! | [`Session`] | the worker's loop: pull values, compute, push gradients |
//! | [`Supervisor`] | who initialises, who waits, when to stop |
//! | [`ParameterServerStrategy`], [`Coordinator`] | steps that a chief hands to whichever worker is free |
//! | [`Strategy`], [`fit`] | replicas that learn together; Keras' four verbs |
//! | [`SidecarEvaluator`] | a task that evaluates checkpoints beside a job |
//! | [`checkpoint`] | saving, keeping and restoring a job |
//! | [`SummaryWriter`] | what TensorBoard shows |
//! | [`saved_model`] | models as TensorFlow loads them |
//! | [`MiniCluster`] | a whole job inside of one process, for tests and first steps |

pub mod checkpoint;
pub mod connections;
mod coordinator;
pub mod fit;
mod identity;
mod interrupt;
mod job;
pub mod job_state;
mod local;
mod membership;
mod mini_cluster;
mod options;
mod resolver;
mod run_dir;
pub mod saved_model;
mod server;
mod services;
mod session;
mod sidecar;
mod status;
mod strategy;
mod summary;
mod supervisor;

pub use coordinator::{
    Coordinator, ParameterServerStrategy, RemoteValue, ShardedVariable, Staleness, StepContext, Steps, VariableShard,
};
pub use interrupt::Interrupt;
pub use mini_cluster::MiniCluster;
pub use options::{Say, ServerOptions};
pub use resolver::{ClusterResolver, SimpleClusterResolver, TfConfigClusterResolver};
pub use server::Server;
pub use session::{NonFinite, RowValues, Session, Step, SyncReplicas};
pub use sidecar::SidecarEvaluator;
pub use strategy::{
    DistributedDataset, DistributedSteps, Gradient, PerReplica, Reducible, Replica, Replicated, Strategy,
};
pub use summary::SummaryWriter;

pub use phalanx_collective::Reduce;
pub use phalanx_wire::Token;
pub use supervisor::Supervisor;
