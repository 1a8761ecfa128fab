//! Who holds what, as arithmetic. Every task computes the same layout from the same model.

mod initializer;
mod layout;
mod partitioner;
mod placement;
mod spec;

pub use initializer::Initializer;
pub(crate) use initializer::mix_with;
pub use layout::{Layout, Shard, server_of_row};
pub use partitioner::{Partitioner, split};
pub use placement::Placement;
pub use spec::{TableSpec, VariableSpec};
