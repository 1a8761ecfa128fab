//! Snapshots of a real dense shard stay consistent while updates and rounds continue.

use crate::Executor;
use crate::dense::Dense;
use crate::plan::CHUNK;
use crate::snapshot::{Released, Snapshot, SnapshotKind, Snapshots};
use phalanx_base::{F32Block, Shape};
use phalanx_loom::sync::Arc;
use phalanx_loom::{explore, thread};
use phalanx_optim::Sgd;
use std::sync::LazyLock;

/// Two chunks, so that an update has two locks to take.
const LEN: usize = CHUNK + 1;
/// With a learning rate of 1, adds 1 to every number.
static GRADIENT: LazyLock<Vec<u8>> = LazyLock::new(|| (-1.0_f32).to_le_bytes().repeat(LEN));

/// A snapshot: the shard, and the value of each of its numbers.
struct Shot {
    id: u64,
    number: u64,
    value: u64,
    shard: Arc<Dense>,
    released: Released,
}

impl Snapshot for Shot {
    fn id(&self) -> u64 {
        self.id
    }

    fn release(&self) {
        self.released.set(|| self.shard.release_snapshot(SnapshotKind::Checkpoint, self.number));
    }
}

impl Shot {
    /// Writes the snapshot; returns `false` if it was released meanwhile.
    fn write(&self) -> bool {
        let mut seen = Vec::new();
        self.shard
            .read_snapshot(SnapshotKind::Checkpoint, 0, |chunk| {
                assert!(chunk.iter().all(|number| *number == chunk[0]), "a chunk is half updated");
                seen.push(chunk[0]);
                Ok(())
            })
            .unwrap();
        if self.released.is_set() {
            return false;
        }
        assert_eq!(seen, [self.value as f32; 2], "the writer saw another snapshot");
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
        self.shard.push(0..LEN, &GRADIENT, None, Executor).unwrap();
    }

    /// A planted bug: the same, past the gate.
    fn push_past_the_gate(&self) {
        self.shard.push(0..LEN, &GRADIENT, None, Executor).unwrap();
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
        self.shard.pull(0..LEN, &mut vec![0; 4 * LEN], Executor).unwrap();
    }

    /// A snapshot after all updates until now, or of the rounds below `closed`.
    fn take(&self, id: u64, closed: u64) -> Arc<Shot> {
        let take = |number, _| {
            let (updates, closed) = self.shard.begin_snapshot(SnapshotKind::Checkpoint, closed);
            let (shard, released) = (Arc::clone(&self.shard), Released::default());
            Ok(Shot { id, number, value: updates + closed, shard, released })
        };
        self.snapshots.take(SnapshotKind::Checkpoint, id, take).unwrap()
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
        assert!(server.take(1, 0).write(), "nobody released it");
        pushing.join().unwrap();
    });
}

#[test]
fn a_snapshot_has_an_update_completely_or_not_at_all() {
    an_update_beside_a_snapshot(Server::push);
}

#[test]
#[should_panic(expected = "another snapshot")]
fn an_update_past_the_gate_is_found() {
    an_update_beside_a_snapshot(Server::push_past_the_gate);
}

#[test]
fn a_snapshot_that_another_one_ends_is_written_completely_or_released() {
    explore(|| {
        let server = Server::new();
        server.push();
        let first = server.take(1, 0);
        let writing = thread::spawn(move || first.write());
        let second = server.take(2, 0);
        server.push();
        assert!(second.write(), "nobody released it");
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
        assert!(shot.write(), "nobody released it");
        closing.join().unwrap();
        assert!(shot.write(), "nobody released it");
    });
}
