//! Snapshots of a real dense shard: one instant, while updates and rounds go on.

#![cfg(loom)]

use dense::{CHUNK, Dense};
use phalanx_base::{F32Block, Shape};
use phalanx_loom::{explore, sync, thread};
use phalanx_optim::Sgd;
use snapshot::{GivenUp, Snapshot, Snapshots};
use std::sync::LazyLock;
use sync::{Arc, Mutex, MutexGuard};

#[path = "../../../crates/phalanx-ps/src/server/dense.rs"]
#[allow(dead_code, unreachable_pub)]
mod dense;
#[path = "../../../crates/phalanx-ps/src/server/snapshot.rs"]
#[allow(dead_code)]
mod snapshot;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap()
}

/// Who does the work of an exchange: here always the thread that calls.
#[derive(Clone, Copy)]
struct Crew;

impl Crew {
    fn both<A, B>(self, one: impl FnOnce() -> A, other: impl FnOnce() -> B) -> (A, B) {
        (one(), other())
    }

    fn shares(self, _work: usize, _enough: usize) -> bool {
        false
    }
}

/// Two chunks, so that an update has two locks to take.
const LEN: usize = CHUNK + 1;
/// With a learning rate of 1, adds 1 to every number.
static GRADIENT: LazyLock<Vec<u8>> = LazyLock::new(|| (-1.0_f32).to_le_bytes().repeat(LEN));

/// What is kept of one instant: the shard, and what each of its numbers was.
struct Shot {
    id: u64,
    number: u64,
    value: u64,
    shard: Arc<Dense>,
    given_up: GivenUp,
}

impl Snapshot for Shot {
    fn id(&self) -> u64 {
        self.id
    }

    fn give_up(&self) {
        self.given_up.set(|| self.shard.let_go(self.number));
    }
}

impl Shot {
    /// Writes the snapshot down; `false` if it was given up meanwhile.
    fn write(&self) -> bool {
        let mut seen = Vec::new();
        self.shard
            .at_cut(0, |chunk| {
                assert!(chunk.iter().all(|number| *number == chunk[0]), "a chunk is half updated");
                seen.push(chunk[0]);
                Ok(())
            })
            .unwrap();
        if self.given_up.is_set() {
            return false;
        }
        assert_eq!(seen, [self.value as f32; 2], "the writer saw another instant");
        true
    }
}

struct Server {
    snapshots: Snapshots<Shot>,
    shard: Arc<Dense>,
}

impl Server {
    fn new() -> Arc<Self> {
        let snapshots = Snapshots::default();
        let (shape, clock) = (Shape::new([LEN]).unwrap(), Arc::clone(snapshots.clock()));
        let shard = Arc::new(Dense::new("w".into(), shape, 0..LEN, Sgd::new(1.0).into(), clock));
        Arc::new(Self { snapshots, shard })
    }

    /// An asynchronous update.
    fn push(&self) {
        let _update = self.snapshots.update();
        self.shard.push(0..LEN, &GRADIENT, None, Crew).unwrap();
    }

    /// A planted bug: the same, past the gate.
    fn push_past_the_gate(&self) {
        self.shard.push(0..LEN, &GRADIENT, None, Crew).unwrap();
    }

    /// A gradient for a synchronous round.
    fn contribute(&self, round: u64) {
        let _update = self.snapshots.update();
        assert!(self.shard.contribute(round, 0..LEN, &GRADIENT, None, &mut F32Block::default()).unwrap());
    }

    /// A pull by a worker that knows that rounds below `closed` are closed.
    fn pull(&self, closed: u64) {
        let _update = self.snapshots.update();
        self.shard.close(closed);
        self.shard.pull(0..LEN, &mut vec![0; 4 * LEN], Crew).unwrap();
    }

    /// A snapshot after all updates until now, or of the rounds below `closed`.
    fn take(&self, id: u64, closed: u64) -> Arc<Shot> {
        let take = |number, _| {
            let (updates, closed) = self.shard.cut(closed);
            let (shard, given_up) = (Arc::clone(&self.shard), GivenUp::default());
            Ok(Shot { id, number, value: updates + closed, shard, given_up })
        };
        self.snapshots.take(id, take).unwrap()
    }
}

/// An update comes while a snapshot is taken and written.
fn an_update_beside_a_snapshot(push: fn(&Server)) {
    explore(move || {
        let server = Server::new();
        server.push();
        let pushing = thread::spawn({
            let server = Arc::clone(&server);
            move || push(&server)
        });
        assert!(server.take(1, 0).write(), "nobody gave it up");
        pushing.join().unwrap();
    });
}

#[test]
fn a_snapshot_has_an_update_whole_or_not_at_all() {
    an_update_beside_a_snapshot(Server::push);
}

#[test]
#[should_panic(expected = "another instant")]
fn an_update_past_the_gate_is_found() {
    an_update_beside_a_snapshot(Server::push_past_the_gate);
}

#[test]
fn a_snapshot_that_another_one_ends_is_written_whole_or_given_up() {
    explore(|| {
        let server = Server::new();
        server.push();
        let first = server.take(1, 0);
        let writing = thread::spawn(move || first.write());
        let second = server.take(2, 0);
        server.push();
        assert!(second.write(), "nobody gave it up");
        writing.join().unwrap();
    });
}

/// A round is held open while a snapshot is taken: the rounds before it are in the snapshot, and its gradients are not,
/// whether they come before the snapshot or after it, and whoever closes the round while the snapshot is written.
#[test]
fn a_snapshot_has_closed_rounds_and_none_of_the_open_one() {
    explore(|| {
        let server = Server::new();
        server.contribute(0);
        let contributing = thread::spawn({
            let server = Arc::clone(&server);
            move || server.contribute(1)
        });
        let shot = server.take(1, 1);
        contributing.join().unwrap();
        let closing = thread::spawn({
            let server = Arc::clone(&server);
            move || server.pull(2)
        });
        assert!(shot.write(), "nobody gave it up");
        closing.join().unwrap();
        assert!(shot.write(), "nobody gave it up");
    });
}
