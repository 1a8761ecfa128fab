//! Training with many tasks: servers and how they find each other, the worker's loop, and the supervisor around it.
//!
//! | read | for |
//! | --- | --- |
//! | [`Server`] | a task's life: it listens, says hello to the chief, and ends when the job ends |
//! | [`Session`] | the worker's loop: pull values, compute, push gradients |
//! | [`Supervisor`] | who initialises, who waits, when to stop |
//! | [`MiniCluster`] | a whole job inside of one process, for tests and first steps |

mod identity;
mod interrupt;
mod job;
mod local;
mod membership;
mod mini_cluster;
mod options;
mod server;
mod services;
mod session;
mod supervisor;

pub use interrupt::Interrupt;
pub use mini_cluster::MiniCluster;
pub use options::{Say, ServerOptions};
pub use server::Server;
pub use services::{Checkpoint, Saver, SummaryWriter};
pub use session::{NonFinite, Session, Step, SyncReplicas};
pub use supervisor::Supervisor;
