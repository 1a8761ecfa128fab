//! Snapshots by copy-on-write: the writer sees exactly one instant while updates go on.

#![cfg(loom)]

use phalanx_loom::{explore, sync, thread};
use snapshot::{Before, GivenUp, Snapshot, Snapshots};
use sync::atomic::{AtomicU64, Ordering};
use sync::{Arc, Mutex};

#[path = "../../../crates/phalanx-ps/src/server/snapshot.rs"]
#[allow(dead_code)]
mod snapshot;

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
    /// Copies are dropped before the snapshot is said to be given up.
    DropFirst,
}

/// Numbers that one lock guards.
#[derive(Default)]
struct Page {
    number: [f32; 1],
    before: Before,
}

type Pages = [Arc<Mutex<Page>>; 2];

/// What the server keeps of one instant. Every update adds one to both pages, so both are `updates` in it.
struct Shot {
    id: u64,
    number: u64,
    updates: u64,
    pages: Pages,
    given_up: GivenUp,
    bug: Bug,
}

impl Snapshot for Shot {
    fn id(&self) -> u64 {
        self.id
    }

    fn give_up(&self) {
        let drop_copies = || self.pages.iter().for_each(|page| page.lock().unwrap().before.let_go(self.number));
        if self.bug == Bug::DropFirst {
            drop_copies();
            self.given_up.set(|| ());
        } else {
            self.given_up.set(drop_copies);
        }
    }
}

impl Shot {
    /// Writes the snapshot down; `false` if it was given up meanwhile.
    fn write(&self) -> bool {
        let seen = self.pages.each_ref().map(|page| {
            let page = page.lock().unwrap();
            page.before.at_cut(&page.number)[0]
        });
        if self.given_up.is_set() {
            return false;
        }
        assert_eq!(seen, [self.updates as f32; 2], "the writer saw another instant");
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
                page.before.keep(&page.number, now);
            } else {
                page.before.keep(&page.number, now);
                page.number[0] += 1.0;
            }
        }
        self.updates.fetch_add(1, Ordering::Relaxed);
        drop(gate);
    }

    fn take(&self, id: u64, bug: Bug) -> Arc<Shot> {
        let taken = self.snapshots.take(id, |number, _| {
            let (updates, pages) = (self.updates.load(Ordering::Relaxed), self.pages.clone());
            Ok(Shot { id, number, updates, pages, given_up: GivenUp::default(), bug })
        });
        taken.unwrap()
    }
}

/// Updates go on while a snapshot is taken and written.
fn updates_beside_a_writer(bug: Bug) {
    explore(move || {
        let server = Arc::<Server>::default();
        server.update(Bug::None);
        let updating = thread::spawn({
            let server = Arc::clone(&server);
            move || server.update(bug)
        });
        assert!(server.take(1, bug).write(), "nobody gave it up");
        updating.join().unwrap();
        assert!(server.take(1, bug).write(), "the same id is the same snapshot");
    });
}

/// A second snapshot gives the first one up while its writer is at work and updates go on.
fn a_second_snapshot_beside_the_first_writer(bug: Bug) {
    explore(move || {
        let server = Arc::<Server>::default();
        let first = server.take(1, bug);
        server.update(Bug::None);
        let writing = thread::spawn(move || first.write());
        let second = server.take(2, bug);
        server.update(Bug::None);
        assert!(second.write(), "nobody gave it up");
        writing.join().unwrap();
    });
}

/// A snapshot is released while its writer is at work and an update comes.
fn a_release_beside_the_writer(bug: Bug) {
    explore(move || {
        let server = Arc::<Server>::default();
        let first = server.take(1, bug);
        let writing = thread::spawn(move || first.write());
        let updating = thread::spawn({
            let server = Arc::clone(&server);
            move || server.update(bug)
        });
        server.snapshots.release(1);
        assert!(server.snapshots.get(1).is_none());
        writing.join().unwrap();
        updating.join().unwrap();
        assert!(server.take(2, bug).write(), "nobody gave it up");
    });
}

#[test]
fn a_writer_sees_the_instant_whatever_is_updated() {
    updates_beside_a_writer(Bug::None);
}

#[test]
fn a_writer_sees_its_own_snapshot_or_that_it_was_given_up() {
    a_second_snapshot_beside_the_first_writer(Bug::None);
}

#[test]
fn a_release_is_seen_by_the_writer_before_numbers_change() {
    a_release_beside_the_writer(Bug::None);
}

#[test]
#[should_panic(expected = "another instant")]
fn copying_after_the_change_is_found() {
    updates_beside_a_writer(Bug::CopyAfterChange);
}

#[test]
#[should_panic(expected = "another instant")]
fn reading_the_clock_before_the_gate_is_found() {
    updates_beside_a_writer(Bug::ClockBeforeGate);
}

#[test]
#[should_panic(expected = "another instant")]
fn an_update_that_passes_by_the_gate_is_found() {
    updates_beside_a_writer(Bug::NoGate);
}

#[test]
#[should_panic(expected = "another instant")]
fn dropping_copies_before_saying_so_is_found() {
    a_second_snapshot_beside_the_first_writer(Bug::DropFirst);
}

#[test]
#[should_panic(expected = "another instant")]
fn dropping_copies_before_saying_so_is_found_at_a_release() {
    a_release_beside_the_writer(Bug::DropFirst);
}
