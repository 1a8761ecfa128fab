//! Which server holds what, as arithmetic. Every task computes the same layout from the same model.

mod initializer;
mod layout;
mod partitioner;
mod placement;
mod spec;

pub use layout::{Layout, Shard, server_of_row};
pub use partitioner::{Partitioner, split};
pub use phalanx_base::RowInitializer;
pub use placement::Placement;
pub use spec::{ItemKind, ItemSpec, TableSpec, VariableSpec};

/// Numbers in a chunk of a dense shard: 64 KiB of values. Two workers seldom meet in one, and beside its arithmetic a
/// lock costs nothing.
pub const CHUNK: usize = 16 * 1024;
