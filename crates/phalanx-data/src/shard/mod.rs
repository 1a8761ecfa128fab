//! How workers share the input: every element goes to exactly one of them in each epoch.

mod blocks;
mod choice;
mod context;
mod distribute;
mod plan;

pub use blocks::{BlockClaim, BlockClaims};
pub use choice::{AutoShardPolicy, ShardedBy, Sharding};
pub use context::InputContext;
pub use distribute::{
    ReplicaDataset, ReplicaIterator, datasets_from_function, distribute_dataset, replica_batch_sizes,
};
