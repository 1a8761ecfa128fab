//! All-reduce, broadcast, gather and barrier between the members of a group: threads of one process, or processes.
//!
//! Read [`Group`] first. [`Group::in_process`] makes one of threads; [`Group::connect`] one of the tasks of a job, which
//! meet at each other's [`Door`]. [`Background`] lets reductions run while the caller computes.
//!
//! Invariants: the order of additions depends only on the group's size and the lengths, so all members have the same
//! bits in every run; every message says which call it belongs to, so members that do different things get an error and
//! not garbage; the first failure is everybody's, and no call waits for ever.
//!
//! From below: `pipes` carry bytes without blocking (`local` between threads, `net` between processes); `exchange` sends
//! one message and receives another at the same time; `algorithms` and `spread` are made of exchanges.

mod algorithms;
mod background;
mod board;
mod call;
mod exchange;
mod group;
mod local;
mod net;
mod pipes;
mod reduce;
mod rows;
mod spread;

// What `crate::sync` is in a model check; see tests/loom.
use std::sync;

pub use background::{Background, Handle};
pub use group::{Group, PATIENCE};
pub use net::{Door, Nearby, Options, Peer};
pub use reduce::Reduce;
pub use rows::Rows;
