//! Snapshots by copy-on-write: the writer sees exactly one snapshot while updates continue.

use crate::snapshot::{CowPage, Released, Snapshot, SnapshotKind, Snapshots};
use phalanx_loom::sync::atomic::{AtomicU64, Ordering};
use phalanx_loom::sync::{Arc, Mutex};
use phalanx_loom::{explore, thread};

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    /// An update copies numbers after it has changed them.
    CopyAfterChange,
    /// An update reads the clock before it is let through the gate.
    ClockBeforeGate,
    /// An update does not go through the gate.
    NoGate,
    /// Copies are dropped before the snapshot is marked released.
    DropFirst,
}

/// Numbers that one lock guards.
#[derive(Default)]
struct Page {
    number: [f32; 1],
    cow: CowPage,
}

type Pages = [Arc<Mutex<Page>>; 2];

/// A snapshot. Every update adds one to both pages, so both are `updates` in it.
struct Shot {
    id: u64,
    number: u64,
    updates: u64,
    pages: Pages,
    released: Released,
    bug: Bug,
}

impl Snapshot for Shot {
    fn id(&self) -> u64 {
        self.id
    }

    fn release(&self) {
        let drop_copies = || {
            self.pages.iter().for_each(|page| page.lock().unwrap().cow.release(SnapshotKind::Checkpoint, self.number))
        };
        if self.bug == Bug::DropFirst {
            drop_copies();
            self.released.set(|| ());
        } else {
            self.released.set(drop_copies);
        }
    }
}

impl Shot {
    /// Writes the snapshot; returns `false` if it was released meanwhile.
    fn write(&self) -> bool {
        let seen = self.pages.each_ref().map(|page| {
            let page = page.lock().unwrap();
            page.cow.read_snapshot(SnapshotKind::Checkpoint, &page.number)[0]
        });
        if self.released.is_set() {
            return false;
        }
        assert_eq!(seen, [self.updates as f32; 2], "the writer saw another snapshot");
        true
    }
}

#[derive(Default)]
struct Server {
    snapshots: Snapshots<Shot>,
    pages: Pages,
    updates: AtomicU64,
}

impl Server {
    /// One exchange, as a store does it: through the gate, then page by page.
    fn update(&self, bug: Bug) {
        let early = self.snapshots.clock().now();
        let gate = (bug != Bug::NoGate).then(|| self.snapshots.update());
        let now = if bug == Bug::ClockBeforeGate { early } else { self.snapshots.clock().now() };
        for page in &self.pages {
            let page = &mut *page.lock().unwrap();
            if bug == Bug::CopyAfterChange {
                page.number[0] += 1.0;
                page.cow.preserve(&page.number, now);
            } else {
                page.cow.preserve(&page.number, now);
                page.number[0] += 1.0;
            }
        }
        self.updates.fetch_add(1, Ordering::Relaxed);
        drop(gate);
    }

    fn take(&self, id: u64, bug: Bug) -> Arc<Shot> {
        let taken = self.snapshots.take(SnapshotKind::Checkpoint, id, |number, _| {
            let (updates, pages) = (self.updates.load(Ordering::Relaxed), self.pages.clone());
            Ok(Shot { id, number, updates, pages, released: Released::default(), bug })
        });
        taken.unwrap()
    }
}

/// Updates continue while a snapshot is taken and written.
fn updates_beside_a_writer(bug: Bug) {
    explore(move || {
        let server = Arc::<Server>::default();
        server.update(Bug::None);
        let updating = thread::spawn({
            let server = Arc::clone(&server);
            move || server.update(bug)
        });
        assert!(server.take(1, bug).write(), "nobody released it");
        updating.join().unwrap();
        assert!(server.take(1, bug).write(), "the same id is the same snapshot");
    });
}

/// A second snapshot releases the first one while its writer works and updates continue.
fn a_second_snapshot_beside_the_first_writer(bug: Bug) {
    explore(move || {
        let server = Arc::<Server>::default();
        let first = server.take(1, bug);
        server.update(Bug::None);
        let writing = thread::spawn(move || first.write());
        let second = server.take(2, bug);
        server.update(Bug::None);
        assert!(second.write(), "nobody released it");
        writing.join().unwrap();
    });
}

/// A snapshot is released while its writer works and an update comes.
fn a_release_beside_the_writer(bug: Bug) {
    explore(move || {
        let server = Arc::<Server>::default();
        let first = server.take(1, bug);
        let writing = thread::spawn(move || first.write());
        let updating = thread::spawn({
            let server = Arc::clone(&server);
            move || server.update(bug)
        });
        server.snapshots.release(SnapshotKind::Checkpoint, 1);
        assert!(server.snapshots.get(SnapshotKind::Checkpoint, 1).is_none());
        writing.join().unwrap();
        updating.join().unwrap();
        assert!(server.take(2, bug).write(), "nobody released it");
    });
}

#[test]
fn a_writer_sees_its_snapshot_whatever_is_updated() {
    updates_beside_a_writer(Bug::None);
}

#[test]
fn a_writer_sees_its_own_snapshot_or_that_it_was_released() {
    a_second_snapshot_beside_the_first_writer(Bug::None);
}

#[test]
fn a_release_is_seen_by_the_writer_before_numbers_change() {
    a_release_beside_the_writer(Bug::None);
}

#[test]
#[should_panic(expected = "another snapshot")]
fn copying_after_the_change_is_found() {
    updates_beside_a_writer(Bug::CopyAfterChange);
}

#[test]
#[should_panic(expected = "another snapshot")]
fn reading_the_clock_before_the_gate_is_found() {
    updates_beside_a_writer(Bug::ClockBeforeGate);
}

#[test]
#[should_panic(expected = "another snapshot")]
fn an_update_that_passes_by_the_gate_is_found() {
    updates_beside_a_writer(Bug::NoGate);
}

#[test]
#[should_panic(expected = "another snapshot")]
fn dropping_copies_before_the_mark_is_found() {
    a_second_snapshot_beside_the_first_writer(Bug::DropFirst);
}

#[test]
#[should_panic(expected = "another snapshot")]
fn dropping_copies_before_the_mark_is_found_at_a_release() {
    a_release_beside_the_writer(Bug::DropFirst);
}
