//! Parameter servers and their client.
//!
//! | where | what |
//! | --- | --- |
//! | [`checkpoint`] | what a checkpoint contains, whether it fits a model, and how it comes back into servers. |
//! | [`plan`] | who holds what: partitioners, placement, the layout of a model over servers. Pure. |
//! | [`recovery`] | what to do about a server that comes back empty, and what was lost with it. Pure. |
//! | [`server`] | the shards, the names already applied, the synchronous barrier, and the service around them. |
//! | [`client`] | what a worker calls: create, find, push and pull in one round trip. |
//! | [`Crew`] | who does the work of one exchange: one thread, or all of a job that is one process. |
//!
//! Invariants: an update's name is applied once per server, whatever is retried or repeated; a chunk of a variable is
//! never seen half updated; a server links no tensor library.

pub mod checkpoint;
pub mod client;
mod crew;
pub mod plan;
pub mod recovery;
pub mod server;

// What `crate::sync` is in a model check; see tests/loom.
use std::sync;

pub use client::{Client, to_wire as client_of};
pub use crew::Crew;
pub use plan::{Layout, Partitioner, Placement, TableSpec, VariableSpec};
pub use server::{Store, identity as life_of};
