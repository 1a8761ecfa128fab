//! A write-ahead log in memory that outlives its process: what a parameter server acknowledges is in it first.
//!
//! | module | contents |
//! | --- | --- |
//! | [`wal`] | [`Wal`]: append, truncate, replay. Pure apart from the memory it is given. |
//! | [`record`] | The bytes of a record and of a segment's head, and their checksums. |
//! | [`segment`] | Memory of fixed size: a mapped file, or the heap. |
//! | [`space`] | Where segments come from: a folder of files, or nothing but memory, for simulations. |
//! | `durability` | [`Durability`]: what a job promises about acknowledged updates. |
//! | [`job_dir`] | The folder of a job's logs: made, locked, and removed with the job. |
//! | [`room`] | How much memory this machine can spare. |
//!
//! Invariants: a record is complete in memory before [`Wal::append`] returns; whatever instant the process dies at, the
//! records that were complete are found again, in their order; bytes that nobody wrote as a record are never taken for one.

mod durability;
pub mod job_dir;
pub mod record;
pub mod room;
pub mod segment;
pub mod space;
pub mod wal;
#[cfg(test)]
mod wal_tests;

pub use durability::{DURABILITY_VAR, Durability, WAL_DIR_VAR};
pub use job_dir::JobDir;
pub use room::Room;
pub use segment::Segment;
pub use space::{Folder, Heap, Space};
pub use wal::{Found, Reservation, Wal, WalOptions};
