//! The types that every other crate uses: tasks, shapes, numbers in bytes, and errors.
//!
//! Nothing here does IO, spawns a thread or reads a clock. Read [`Error`] first: every failure a user can see has a
//! [`Code`] and states what happened, where, why, and what to do next.

mod address;
mod code;
mod combiner;
mod error;
mod f32s;
mod hash;
mod prefetch;
mod random;
mod row_initializer;
mod shape;
mod snippet;
mod suggest;
mod task;
mod update_id;

pub use address::Address;
pub use code::{Code, Fault};
pub use combiner::Combiner;
pub use error::{Context, Error, Result};
pub use f32s::{F32Block, as_f32s, in_place, read_f32s, write_f32s};
pub use hash::fnv1a;
pub use prefetch::prefetch;
pub use random::{STRIDE, SplitMix, mix};
pub use row_initializer::{RowDistribution, RowInitializer};
pub use shape::Shape;
pub use snippet::Snippet;
pub use suggest::nearest;
pub use task::{Incarnation, Role, TaskId};
pub use update_id::UpdateId;
