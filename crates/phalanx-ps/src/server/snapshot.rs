//! Snapshots by copy-on-write: the order of steps that makes one instant of a server readable while updates go on.
//!
//! A snapshot takes the time of a lock: no update is half in it. From then on, whoever changes numbers for the first time
//! keeps a copy of them as they were. The writer takes that copy where there is one, and the numbers themselves where
//! nothing has changed. So training never waits for a disk, and the copies are never more than the model once.
//!
//! `tests/loom/tests/snapshot.rs` checks this file under every interleaving of updates, a writer and releases.

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use phalanx_base::Result;
use std::time::Instant;

/// The number of the newest snapshot; shared by everything that keeps copies.
#[derive(Debug, Default)]
pub(crate) struct Clock(AtomicU64);

impl Clock {
    /// The number of the newest snapshot. An update reads it while it holds [`Snapshots::update`].
    pub(crate) fn now(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// What numbers were at the newest cut, where they have changed since.
#[derive(Default)]
pub(crate) struct Before {
    copy: Option<Box<[f32]>>,
    /// Cuts up to this one need nothing more of the numbers, or have their copy.
    cut: u64,
}

impl Before {
    /// Of numbers that come into being now.
    pub(crate) fn new(now: u64) -> Self {
        Self { copy: None, cut: now }
    }

    /// To be called before a change of `numbers`.
    pub(crate) fn keep(&mut self, numbers: &[f32], now: u64) {
        if self.cut < now {
            *self = Self { copy: Some(numbers.into()), cut: now };
        }
    }

    /// The numbers as they were at the cut, of which there are these now.
    pub(crate) fn at_cut<'a>(&'a self, numbers: &'a [f32]) -> &'a [f32] {
        self.copy.as_deref().unwrap_or(numbers)
    }

    /// The cut needs these numbers no more.
    pub(crate) fn let_go(&mut self, cut: u64) {
        *self = Self { copy: None, cut: self.cut.max(cut) };
    }
}

/// Whether a snapshot was given up, so that what is read from now on may be of another instant.
#[derive(Debug, Default)]
pub(crate) struct GivenUp(AtomicBool);

impl GivenUp {
    /// Gives the snapshot up. That is said before the first copy is dropped: a writer that has read everything and then
    /// finds [`Self::is_set`] false has read one instant.
    pub(crate) fn set(&self, drop_copies: impl FnOnce()) {
        self.0.store(true, Ordering::Release);
        drop_copies();
    }

    /// Whether it was given up. A writer asks after its last read.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// What is kept of one instant.
pub(crate) trait Snapshot {
    /// What the client calls it.
    fn id(&self) -> u64;

    /// Gives it up, by [`GivenUp::set`].
    fn give_up(&self);
}

/// The newest snapshot, and the gate that keeps updates from being half in it.
pub(crate) struct Snapshots<S> {
    gate: RwLock<()>,
    clock: Arc<Clock>,
    kept: Mutex<Option<Arc<S>>>,
}

impl<S> Default for Snapshots<S> {
    fn default() -> Self {
        Self { gate: RwLock::new(()), clock: Arc::default(), kept: Mutex::new(None) }
    }
}

impl<S: Snapshot> Snapshots<S> {
    /// The clock, for everything that keeps copies.
    pub(crate) fn clock(&self) -> &Arc<Clock> {
        &self.clock
    }

    /// To be held by every update from before it reads the clock until its last change is made.
    pub(crate) fn update(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the updates in progress and holds new ones up.
    pub(crate) fn exclude_updates(&self) -> RwLockWriteGuard<'_, ()> {
        self.gate.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the snapshot called `id`, or takes it: `take` is called while there are no updates, with the snapshot's
    /// number and the time since when updates wait. A former snapshot with another id is given up.
    pub(crate) fn take(&self, id: u64, take: impl FnOnce(u64, Instant) -> Result<S>) -> Result<Arc<S>> {
        let mut kept = self.kept();
        if let Some(known) = kept.as_ref().filter(|snapshot| snapshot.id() == id) {
            return Ok(Arc::clone(known));
        }
        if let Some(former) = kept.take() {
            former.give_up();
        }
        let started = Instant::now();
        let gate = self.exclude_updates();
        let number = self.clock.now() + 1;
        let taken = Arc::new(take(number, started)?);
        // Still behind the gate: an update that changed numbers without seeing the new number would keep no copy.
        self.clock.0.store(number, Ordering::Release);
        drop(gate);
        *kept = Some(Arc::clone(&taken));
        Ok(taken)
    }

    /// The snapshot called `id`, unless it was given up.
    pub(crate) fn get(&self, id: u64) -> Option<Arc<S>> {
        self.kept().clone().filter(|snapshot| snapshot.id() == id)
    }

    /// Gives the snapshot called `id` up.
    pub(crate) fn release(&self, id: u64) {
        if let Some(snapshot) = self.kept().take_if(|snapshot| snapshot.id() == id) {
            snapshot.give_up();
        }
    }

    fn kept(&self) -> MutexGuard<'_, Option<Arc<S>>> {
        // Changed by single assignments, so a panic elsewhere leaves nothing half done.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
