//! Loom's types with orderings that a test can weaken. A model hands them to the product's file in place of
//! [`crate::sync`], and runs once as it is and once under a planted [`Fault`].

use std::cell::Cell;

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Every store is relaxed.
    RelaxedStores,
    /// Every load is relaxed.
    RelaxedLoads,
    /// Fences do nothing.
    NoFences,
}

thread_local! {
    /// Loom runs all threads of a model on the thread that explores it, so this holds for one test.
    static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
}

/// Explores `model` with a planted bug.
///
/// # Panics
/// When the checker finds it. That is what a test should expect.
pub fn explore_with(fault: Fault, model: impl Fn() + Sync + Send + 'static) {
    PLANTED.set(Some(fault));
    crate::explore(model);
}

fn is_planted(fault: Fault) -> bool {
    PLANTED.get() == Some(fault)
}

/// See the module.
pub mod sync {
    pub use crate::sync::{Arc, Condvar, LockResult, Mutex, MutexGuard, PoisonError, RwLock};

    /// See the module.
    pub mod atomic {
        use super::super::{Fault, is_planted};
        pub use loom::sync::atomic::Ordering;

        fn for_store(order: Ordering) -> Ordering {
            if is_planted(Fault::RelaxedStores) { Ordering::Relaxed } else { order }
        }

        fn for_load(order: Ordering) -> Ordering {
            if is_planted(Fault::RelaxedLoads) { Ordering::Relaxed } else { order }
        }

        /// A fence, unless it is the planted bug.
        pub fn fence(order: Ordering) {
            if !is_planted(Fault::NoFences) {
                loom::sync::atomic::fence(order);
            }
        }

        /// A number that threads share.
        #[derive(Debug, Default)]
        pub struct AtomicU64(loom::sync::atomic::AtomicU64);

        impl AtomicU64 {
            /// Starts with `value`.
            #[must_use]
            pub fn new(value: u64) -> Self {
                Self(loom::sync::atomic::AtomicU64::new(value))
            }

            /// See [`std::sync::atomic::AtomicU64::load`].
            pub fn load(&self, order: Ordering) -> u64 {
                self.0.load(for_load(order))
            }

            /// See [`std::sync::atomic::AtomicU64::store`].
            pub fn store(&self, value: u64, order: Ordering) {
                self.0.store(value, for_store(order));
            }

            /// See [`std::sync::atomic::AtomicU64::swap`].
            pub fn swap(&self, value: u64, order: Ordering) -> u64 {
                self.0.swap(value, order)
            }
        }
    }
}
