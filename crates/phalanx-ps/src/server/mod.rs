//! One parameter server: its shards, what it has already applied, and the service around it.

mod applied;
#[cfg(test)]
mod applied_tests;
mod assign;
mod background;
mod barrier;
mod body;
pub(crate) mod cut;
pub(crate) mod dense;
#[cfg(test)]
mod dense_tests;
mod index;
pub(crate) mod items;
mod load;
mod notes;
mod pages;
mod pending_rows;
mod restoring;
mod saving;
mod service;
mod slabs;
mod snapshot;
mod staleness;
mod store;
mod stripe;
pub(crate) mod table;

pub use applied::{Applied, Progress, Update, Verdict};
pub use barrier::{Arrival, Barrier, Hold};
pub use cut::Cut;
pub use dense::CHUNK;
pub use load::{Holding, Load};
pub use service::{Service, identity};
pub use store::Store;

use crate::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock even if a thread died holding it: every guarded value here is changed in steps that each leave it
/// whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
