//! All-reduce, broadcast, gather and barrier between the members of a group: threads of one process, or processes.
//!
//! Read [`Group`] first. [`Group::in_process`] creates a group of threads, [`Group::connect`] one of the tasks of a job, which
//! connect to each other's [`GroupListener`].
//!
//! Invariants: the order of additions depends only on the group's size and the lengths, so all members have the same
//! bits in every run; every message states which call it belongs to, so members whose calls differ get an error and
//! not garbage; the first failure ends the group for all members, and no call waits forever.
//!
//! Bottom up: `pipes` carry bytes without blocking (`local` between threads, `net` between processes); `exchange` sends
//! one message and receives another at the same time; `algorithms` and `spread` are made of exchanges.

mod algorithms;
mod call;
mod exchange;
mod group;
mod group_failure;
mod local;
mod net;
mod pipes;
mod reduce;
mod spread;

// The model checks in tests/loom replace `crate::sync` by loom's types.
use std::sync;

#[allow(missing_docs, unreachable_pub, clippy::all)]
mod proto {
    include!(concat!(env!("OUT_DIR"), "/phalanx.collective.rs"));
}

pub use group::{Group, PATIENCE};
pub use net::{GroupListener, GroupOptions, Peer, SameHostTransport};
pub use reduce::Reduce;
