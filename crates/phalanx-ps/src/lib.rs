//! Parameter servers and their client.
//!
//! | module | contents |
//! | --- | --- |
//! | [`checkpoint`] | The contents of a checkpoint, whether it fits a model, and how servers are restored from it. |
//! | [`plan`] | Which server holds what: partitioners, placement, the layout of a model over servers. Pure. |
//! | [`recovery`] | The recovery of a server that comes back empty, and what was lost with it. Pure. |
//! | [`server`] | The shards, the applied updates, the synchronous barrier, and the service around them. |
//! | [`client`] | What a worker calls: create, find, push and pull in one round trip. |
//! | [`proto`] | The messages of the protocol, for tests that send hostile ones. |
//!
//! Invariants: an update id is applied once per server, whatever is retried or repeated; a chunk of a variable is never
//! seen half updated; a server links no tensor library.

pub mod checkpoint;
pub mod client;
mod executor;
pub mod plan;
pub mod recovery;
pub mod server;

/// The messages of the protocol, as `params.proto` defines them.
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod proto {
    include!(concat!(env!("OUT_DIR"), "/phalanx.params.rs"));
}

// A model check replaces `crate::sync`; see tests/loom.
use std::sync;

pub use client::Client;
pub use executor::Executor;
pub use plan::{Layout, Partitioner, Placement, TableSpec, VariableSpec};
pub use server::{Store, TaskIncarnation};
