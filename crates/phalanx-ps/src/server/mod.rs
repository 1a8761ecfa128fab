//! One parameter server: its shards, the updates it has applied, and the service around it.

mod applied;
#[cfg(test)]
mod applied_tests;
mod assign;
mod background;
mod barrier;
mod block_claims;
mod body;
mod clocks;
pub(crate) mod dense;
#[cfg(test)]
mod dense_tests;
mod index;
mod input_positions;
pub(crate) mod items;
mod load;
mod log;
mod pages;
mod participants;
mod pending_rows;
mod restoring;
mod round_counts;
mod saving;
mod service;
mod slabs;
mod snapshot;
mod staleness;
mod store;
pub(crate) mod store_snapshot;
mod stripe;
pub(crate) mod table;
mod write_snapshot;

pub use applied::{AppliedUpdates, TaskIncarnation, TaskProgress, UpdateOutcome, UpdatePart};
pub use barrier::{Arrival, Barrier, Hold};
pub use clocks::Clocks;
pub use load::{ServerLoad, StoredItem};
pub use log::{LogPlan, Replayed};
pub use service::Service;
pub use store::Store;
pub use store_snapshot::StoreSnapshot;

use crate::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock even if a thread died holding it: every guarded value here is changed in steps that each leave it
/// valid.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
