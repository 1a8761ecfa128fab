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

/// What a snapshot is for. There is one of each at a time, and neither waits for the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SnapshotKind {
    /// The chief's checkpoint.
    Checkpoint = 0,
    /// The server's own write-ahead log, which is cut off at the snapshot.
    Log = 1,
}

pub(crate) const SNAPSHOT_KINDS: [SnapshotKind; 2] = [SnapshotKind::Checkpoint, SnapshotKind::Log];

/// The number of the newest snapshot of each kind.
pub(crate) type Now = [u64; SNAPSHOT_KINDS.len()];

/// The numbers of the newest snapshots; shared by everything that preserves pages.
#[derive(Debug, Default)]
pub(crate) struct Clock([AtomicU64; SNAPSHOT_KINDS.len()]);

impl Clock {
    /// Returns the numbers of the newest snapshots. An update reads them while it holds [`Snapshots::update`].
    pub(crate) fn now(&self) -> Now {
        [self.0[0].load(Ordering::Acquire), self.0[1].load(Ordering::Acquire)]
    }
}

/// The copy-on-write state of one page: its numbers at the newest snapshots, where they have changed since.
#[derive(Default)]
pub(crate) struct CowPage {
    copies: [Option<Box<[f32]>>; SNAPSHOT_KINDS.len()],
    /// Snapshots up to these have their copy, or need none.
    snapshots: Now,
}

impl CowPage {
    /// The state of a page that is created now.
    pub(crate) fn new(now: Now) -> Self {
        Self { snapshots: now, ..Self::default() }
    }

    /// Preserves `numbers` for the newest snapshots. Call it before every change.
    pub(crate) fn preserve(&mut self, numbers: &[f32], now: Now) {
        if self.snapshots != now {
            SNAPSHOT_KINDS.into_iter().for_each(|kind| self.preserve_for(kind, numbers, now));
        }
    }

    /// Preserves `numbers` for the newest snapshot of one kind: the change that follows belongs to the other's.
    pub(crate) fn preserve_for(&mut self, kind: SnapshotKind, numbers: &[f32], now: Now) {
        let kind = kind as usize;
        if self.snapshots[kind] < now[kind] {
            (self.copies[kind], self.snapshots[kind]) = (Some(numbers.into()), now[kind]);
        }
    }

    /// Returns the numbers at the kind's snapshot, given the current ones.
    pub(crate) fn read_snapshot<'a>(&'a self, kind: SnapshotKind, numbers: &'a [f32]) -> &'a [f32] {
        self.copies[kind as usize].as_deref().unwrap_or(numbers)
    }

    /// Drops the copy for `snapshot`.
    pub(crate) fn release(&mut self, kind: SnapshotKind, snapshot: u64) {
        let kind = kind as usize;
        (self.copies[kind], self.snapshots[kind]) = (None, self.snapshots[kind].max(snapshot));
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

/// The newest snapshots, and the gate that keeps updates from being half in one.
pub(crate) struct Snapshots<S> {
    gate: RwLock<()>,
    clock: Arc<Clock>,
    newest: [Mutex<Option<Arc<S>>>; SNAPSHOT_KINDS.len()],
}

impl<S> Default for Snapshots<S> {
    fn default() -> Self {
        Self { gate: RwLock::new(()), clock: Arc::default(), newest: [Mutex::new(None), Mutex::new(None)] }
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

    /// Returns the kind's snapshot with this id, or takes it: `take` is called while there are no updates, with the snapshot's
    /// number and the time since when updates wait. A former snapshot with another id is released.
    pub(crate) fn take(
        &self,
        kind: SnapshotKind,
        id: u64,
        take: impl FnOnce(u64, Instant) -> Result<S>,
    ) -> Result<Arc<S>> {
        let mut newest = self.newest(kind);
        if let Some(known) = newest.as_ref().filter(|snapshot| snapshot.id() == id) {
            return Ok(Arc::clone(known));
        }
        if let Some(former) = newest.take() {
            former.release();
        }
        let started = Instant::now();
        let gate = self.exclude_updates();
        let number = self.clock.now()[kind as usize] + 1;
        let taken = Arc::new(take(number, started)?);
        // Still behind the gate: an update that changed numbers without seeing the new number would preserve no copy.
        self.clock.0[kind as usize].store(number, Ordering::Release);
        drop(gate);
        *newest = Some(Arc::clone(&taken));
        Ok(taken)
    }

    /// Returns the snapshot with this id, unless it was released.
    pub(crate) fn get(&self, kind: SnapshotKind, id: u64) -> Option<Arc<S>> {
        self.newest(kind).clone().filter(|snapshot| snapshot.id() == id)
    }

    /// Releases the snapshot with this id.
    pub(crate) fn release(&self, kind: SnapshotKind, id: u64) {
        if let Some(snapshot) = self.newest(kind).take_if(|snapshot| snapshot.id() == id) {
            snapshot.release();
        }
    }

    fn newest(&self, kind: SnapshotKind) -> MutexGuard<'_, Option<Arc<S>>> {
        // Changed by single assignments, so a panic elsewhere leaves nothing half done.
        self.newest[kind as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
