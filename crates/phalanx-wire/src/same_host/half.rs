//! The ownership of one half of a shared-memory slot, within one process.
//!
//! A half is *free* or *lent*. Only the connection lends it, to one [`Loan`] at a time, and only a loan's holder accesses
//! the memory. The half is free again once the loan is dropped; then the connection may lend it again, or pass it to the
//! peer by a message. Dropping releases and lending acquires, so the last access of one holder happens before the first
//! access of the next, whichever threads they are on.
//!
//! `tests/loom` checks this file by running every interleaving.

use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, Ordering};

/// The state of a half in this process.
#[derive(Debug)]
pub(crate) struct Half {
    lent: AtomicBool,
}

impl Half {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { lent: AtomicBool::new(false) })
    }

    /// Lends the half; `None` while an earlier loan exists.
    pub(crate) fn lend(half: &Arc<Self>) -> Option<Loan> {
        half.lent.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).ok()?;
        Some(Loan { half: Arc::clone(half) })
    }

    /// Whether the half is free. It stays free until [`Self::lend`], and every access of its last holder has ended.
    pub(crate) fn is_free(&self) -> bool {
        !self.lent.load(Ordering::Acquire)
    }
}

/// The exclusive right to access a half.
#[derive(Debug)]
pub(crate) struct Loan {
    half: Arc<Half>,
}

impl Loan {
    /// Whether this is the loan of `half`.
    pub(crate) fn is_of(&self, half: &Arc<Half>) -> bool {
        Arc::ptr_eq(&self.half, half)
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.half.lent.store(false, Ordering::Release);
    }
}
