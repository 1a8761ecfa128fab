//! The models. Files of the product are included here with loom's types as `crate::sync`.

#![cfg(loom)]
#![allow(dead_code, unreachable_pub, reason = "the models do not call everything")]

use phalanx_loom::sync;
use sync::{Mutex, MutexGuard};

#[path = "../../../../crates/phalanx-ps/src/server/applied.rs"]
mod applied;
#[path = "../../../../crates/phalanx-ps/src/server/dense.rs"]
mod dense;
#[path = "../../../../crates/phalanx-collective/src/net/ring.rs"]
mod ring;
#[path = "../../../../crates/phalanx-wire/src/same_host/half.rs"]
mod slot;
#[path = "../../../../crates/phalanx-ps/src/server/snapshot.rs"]
mod snapshot;

mod applied_model;
mod checker;
mod dense_model;
mod ring_model;
mod slot_model;
mod snapshot_model;

/// What `dense.rs` takes from the plan: chunks of a size that is quick to check.
mod plan {
    pub(crate) const CHUNK: usize = 4;
}

/// What `dense.rs` takes as executor: here always the calling thread.
#[derive(Clone, Copy)]
struct Executor;

impl Executor {
    fn join<A, B>(self, one: impl FnOnce() -> A, other: impl FnOnce() -> B) -> (A, B) {
        (one(), other())
    }

    fn splits(self, _work: usize, _enough: usize) -> bool {
        false
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap()
}
