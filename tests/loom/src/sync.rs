//! What `std::sync` is in the product: loom's types, with memory orderings that a test can weaken.

use std::cell::Cell;

pub use loom::sync::{Arc, Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use std::sync::{LockResult, PoisonError};

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
    /// Loom runs all threads of a model on the thread that explores it, and every test has its own.
    static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
}

pub(crate) fn plant(fault: Fault) {
    PLANTED.set(Some(fault));
}

/// Loom's atomics under the planted bug.
pub mod atomic {
    use super::{Fault, PLANTED};
    use loom::sync::atomic;
    pub use loom::sync::atomic::Ordering;

    fn unless(fault: Fault, order: Ordering) -> Ordering {
        if PLANTED.get() == Some(fault) { Ordering::Relaxed } else { order }
    }

    /// A fence, unless it is the planted bug.
    pub fn fence(order: Ordering) {
        if PLANTED.get() != Some(Fault::NoFences) {
            atomic::fence(order);
        }
    }

    macro_rules! atomics {
        ($($name:ident: $of:ty { $($method:ident($($argument:ident: $type:ty),*) -> $result:ty;)* })*) => {$(
            /// See the standard library's type of this name.
            #[derive(Debug, Default)]
            pub struct $name(atomic::$name);

            #[allow(missing_docs)]
            impl $name {
                #[must_use]
                pub fn new(value: $of) -> Self {
                    Self(atomic::$name::new(value))
                }

                pub fn load(&self, order: Ordering) -> $of {
                    self.0.load(unless(Fault::RelaxedLoads, order))
                }

                pub fn store(&self, value: $of, order: Ordering) {
                    self.0.store(value, unless(Fault::RelaxedStores, order));
                }

                $(pub fn $method(&self, $($argument: $type),*) -> $result {
                    self.0.$method($($argument),*)
                })*
            }
        )*};
    }

    atomics! {
        AtomicBool: bool {
            compare_exchange(current: bool, new: bool, success: Ordering, failure: Ordering) -> Result<bool, bool>;
        }
        AtomicU64: u64 {
            swap(value: u64, order: Ordering) -> u64;
            fetch_add(value: u64, order: Ordering) -> u64;
            fetch_max(value: u64, order: Ordering) -> u64;
        }
    }
}
