//! Snapshots by copy-on-write: the protocol that keeps a snapshot of a server consistent while updates continue.
//!
//! Taking a snapshot takes the time of a lock: no update is half in it. From then on, the first change of a page preserves
//! a copy of it. The writer reads that copy where there is one, and the page itself where nothing has changed. So training
//! never waits for a disk, and the copies are never larger than the model.
//!
//! `tests/loom` checks this file under every interleaving of updates, a writer and releases.

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use phalanx_base::Result;
use std::time::Instant;

/// The number of the newest snapshot; shared by everything that preserves pages.
#[derive(Debug, Default)]
pub(crate) struct Clock(AtomicU64);

impl Clock {
    /// Returns the number of the newest snapshot. An update reads it while it holds [`Snapshots::update`].
    pub(crate) fn now(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// The copy-on-write state of one page: its numbers at the newest snapshot, where they have changed since.
#[derive(Default)]
pub(crate) struct CowPage {
    copy: Option<Box<[f32]>>,
    /// Snapshots up to this one have their copy, or need none.
    snapshot: u64,
}

impl CowPage {
    /// The state of a page that is created now.
    pub(crate) fn new(now: u64) -> Self {
        Self { copy: None, snapshot: now }
    }

    /// Preserves `numbers` for the newest snapshot. Call it before every change.
    pub(crate) fn preserve(&mut self, numbers: &[f32], now: u64) {
        if self.snapshot < now {
            *self = Self { copy: Some(numbers.into()), snapshot: now };
        }
    }

    /// Returns the numbers at the snapshot, given the current ones.
    pub(crate) fn read_snapshot<'a>(&'a self, numbers: &'a [f32]) -> &'a [f32] {
        self.copy.as_deref().unwrap_or(numbers)
    }

    /// Drops the copy for `snapshot`.
    pub(crate) fn release(&mut self, snapshot: u64) {
        *self = Self { copy: None, snapshot: self.snapshot.max(snapshot) };
    }
}

/// Whether a snapshot was released, so that later reads may see newer numbers.
#[derive(Debug, Default)]
pub(crate) struct Released(AtomicBool);

impl Released {
    /// Marks the snapshot released before the first copy is dropped: a writer that has read everything and then finds
    /// [`Self::is_set`] false has read the snapshot.
    pub(crate) fn set(&self, drop_copies: impl FnOnce()) {
        self.0.store(true, Ordering::Release);
        drop_copies();
    }

    /// Whether the snapshot was released. A writer asks after its last read.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// A snapshot that [`Snapshots`] keeps.
pub(crate) trait Snapshot {
    /// Returns the client's id of the snapshot.
    fn id(&self) -> u64;

    /// Releases the snapshot, by [`Released::set`].
    fn release(&self);
}

/// The newest snapshot, and the gate that keeps updates from being half in it.
pub(crate) struct Snapshots<S> {
    gate: RwLock<()>,
    clock: Arc<Clock>,
    newest: Mutex<Option<Arc<S>>>,
}

impl<S> Default for Snapshots<S> {
    fn default() -> Self {
        Self { gate: RwLock::new(()), clock: Arc::default(), newest: Mutex::new(None) }
    }
}

impl<S: Snapshot> Snapshots<S> {
    /// Returns the clock, for everything that preserves pages.
    pub(crate) fn clock(&self) -> &Arc<Clock> {
        &self.clock
    }

    /// Enters the gate. Every update holds it from before it reads the clock until its last change.
    pub(crate) fn update(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the updates in progress and blocks new ones.
    pub(crate) fn exclude_updates(&self) -> RwLockWriteGuard<'_, ()> {
        self.gate.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the snapshot with this id, or takes it: `take` is called while there are no updates, with the snapshot's
    /// number and the time since when updates wait. A former snapshot with another id is released.
    pub(crate) fn take(&self, id: u64, take: impl FnOnce(u64, Instant) -> Result<S>) -> Result<Arc<S>> {
        let mut newest = self.newest();
        if let Some(known) = newest.as_ref().filter(|snapshot| snapshot.id() == id) {
            return Ok(Arc::clone(known));
        }
        if let Some(former) = newest.take() {
            former.release();
        }
        let started = Instant::now();
        let gate = self.exclude_updates();
        let number = self.clock.now() + 1;
        let taken = Arc::new(take(number, started)?);
        // Still behind the gate: an update that changed numbers without seeing the new number would preserve no copy.
        self.clock.0.store(number, Ordering::Release);
        drop(gate);
        *newest = Some(Arc::clone(&taken));
        Ok(taken)
    }

    /// Returns the snapshot with this id, unless it was released.
    pub(crate) fn get(&self, id: u64) -> Option<Arc<S>> {
        self.newest().clone().filter(|snapshot| snapshot.id() == id)
    }

    /// Releases the snapshot with this id.
    pub(crate) fn release(&self, id: u64) {
        if let Some(snapshot) = self.newest().take_if(|snapshot| snapshot.id() == id) {
            snapshot.release();
        }
    }

    fn newest(&self) -> MutexGuard<'_, Option<Arc<S>>> {
        // Changed by single assignments, so a panic elsewhere leaves nothing half done.
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
