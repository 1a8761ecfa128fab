//! Training with many tasks: servers and how they find each other, the worker's loop, and the supervisor around it.
//!
//! | read | for |
//! | --- | --- |
//! | [`Server`] | a task's life: it listens, says hello to the chief, and ends when the job ends |
//! | [`Session`] | the worker's loop: pull values, compute, push gradients |
//! | [`Supervisor`] | who initialises, who waits, when to stop |
//! | [`checkpoint`] | saving, keeping and restoring a job |
//! | [`SummaryWriter`] | what TensorBoard shows |
//! | [`MiniCluster`] | a whole job inside of one process, for tests and first steps |

pub mod checkpoint;
pub mod fit;
mod identity;
mod interrupt;
mod job;
mod local;
mod membership;
mod mini_cluster;
mod options;
mod run_dir;
mod server;
mod services;
mod session;
mod status;
mod strategy;
mod summary;
mod supervisor;

pub use interrupt::Interrupt;
pub use mini_cluster::MiniCluster;
pub use options::{Say, ServerOptions};
pub use server::Server;
pub use session::{NonFinite, RowValues, Session, Step, SyncReplicas};
pub use strategy::{
    DistributedDataset, DistributedSteps, Gradient, PerReplica, Reducible, Replica, Replicated, Strategy,
};
pub use summary::SummaryWriter;

pub use phalanx_collective::Reduce;
pub use supervisor::Supervisor;
