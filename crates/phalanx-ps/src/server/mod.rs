//! One parameter server: its shards, what it has already applied, and the service around it.

mod applied;
mod barrier;
mod body;
mod dense;
mod items;
mod service;
mod store;
mod table;

pub use applied::{Applied, Progress, Verdict};
pub use barrier::{Arrival, Barrier};
pub use dense::CHUNK;
pub use service::Service;
pub use store::Store;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock even if a thread died holding it: every guarded value here is changed in steps that each leave it
/// whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
