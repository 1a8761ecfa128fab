//! A server that was killed at any moment continues exactly where it was. The memory at that moment is a copy of its folder.

use super::{LogPlan, UpdateLog};
use crate::Executor;
use crate::plan::{CHUNK, ItemKind, ItemSpec, RowInitializer};
use crate::proto::{self, Assign, ClaimBlock, Exchange, LogState, Range, Rows, UpdatePart};
use crate::server::{Store, TaskIncarnation, lock};
use bytes::Bytes;
use phalanx_base::{Code, Incarnation, Result, Role, Shape, SplitMix, TaskId};
use phalanx_optim::{Adagrad, Adam};
use phalanx_wal::job_dir::TaskDir;
use std::path::Path;
use std::sync::Arc;

const NUMBERS: usize = CHUNK + 100;
const DIM: usize = 4;
const WORKERS: u32 = 3;

fn worker(index: u32) -> TaskIncarnation {
    (TaskId::new(Role::Worker, index), Incarnation(7))
}

fn plan(folder: &Path) -> LogPlan {
    LogPlan {
        folder: TaskDir::open(folder, "ps-0").unwrap(),
        id: 99,
        segment_bytes: 1 << 20,
        most_segments: 4,
        snapshot_after: 1 << 40,
        spare: 0,
        required: true,
    }
}

fn specs() -> Vec<ItemSpec> {
    let shape = Shape::new([NUMBERS]).unwrap();
    let kind = ItemKind::Dense { shape, rows: 0..NUMBERS };
    let dense = ItemSpec { name: "w".into(), optimizer: Adam::new(0.1).into(), kind };
    let kind = ItemKind::Table { dim: DIM, initializer: RowInitializer::uniform(-1.0, 1.0, 3), pinned: None };
    vec![dense, ItemSpec { name: "t".into(), optimizer: Adagrad::new(0.1).into(), kind }]
}

fn started(folder: &Path) -> Arc<Store> {
    let store = Arc::new(Store::with_log(plan(folder)));
    store.create(&specs()).unwrap();
    store.make_ready().unwrap();
    assert!(store.has_log() && store.replayed().is_none());
    store
}

/// Copies a server's folder as the next process would find it, and continues from it.
fn recovered(server: &Store, folder: &Path) -> Result<(Arc<Store>, tempfile::TempDir)> {
    let copy = tempfile::tempdir().unwrap();
    {
        // A copy of a folder that changes would be one of no moment.
        let _no_snapshot = server.log.active().map(|log| lock(&log.writing));
        copy_folder(folder, copy.path());
    }
    Ok((Store::recover(plan(copy.path()))?, copy))
}

fn copy_folder(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let (from, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if from.is_dir() {
            std::fs::create_dir_all(&to).unwrap();
            copy_folder(&from, &to);
        } else {
            std::fs::copy(from, to).unwrap();
        }
    }
}

fn numbers(random: &mut SplitMix, count: usize) -> Vec<u8> {
    (0..count).flat_map(|_| (random.below(2000) as f32 / 1000.0 - 1.0).to_le_bytes()).collect()
}

/// A message of one part: gradients for all of the variable and for some rows.
fn push(random: &mut SplitMix, step: u64, round: Option<u64>) -> (Exchange, Vec<Bytes>) {
    let ids: Vec<i64> = (0..40).filter(|_| random.below(3) == 0).collect();
    let range = Range { count: NUMBERS as u64, ..Range::default() };
    let ask = Exchange {
        update: Some(UpdatePart { step, part: 0, parts: 1 }),
        counts: true,
        round,
        closed: round.unwrap_or(0),
        dense_push: vec![range],
        row_push: vec![Rows { handle: 1, count: ids.len() as u64, ..Rows::default() }],
        // What it asks for is not logged.
        row_pull: vec![Rows { handle: 1, count: 1, ..Rows::default() }],
        input_position: step.to_le_bytes().to_vec(),
        ..Exchange::default()
    };
    let rows = ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<u8>>();
    let parts = [numbers(random, NUMBERS), rows, numbers(random, DIM * ids.len()), 5_i64.to_le_bytes().to_vec()];
    (ask, parts.into_iter().map(Bytes::from).collect())
}

fn exchange(store: &Store, from: TaskIncarnation, (ask, body): &(Exchange, Vec<Bytes>)) -> Result<()> {
    store.exchange(from, ask, body, Executor::Serial, |len| vec![0; len]).map(drop)
}

/// Everything that a server holds: its state, and the bits of its values.
fn content(store: &Store, closed: u64) -> (LogState, Vec<u8>) {
    // How often something was repeated is not in the log: nothing depends on it.
    let state = LogState { repeats: 0, ..store.log_state(0, (0, 0), store.closed()) };
    let ids: Vec<u8> = (0..40_i64).flat_map(i64::to_le_bytes).collect();
    let range = Range { count: NUMBERS as u64, ..Range::default() };
    let rows = Rows { handle: 1, count: 40, ..Rows::default() };
    let ask = Exchange { closed, dense_pull: vec![range], row_pull: vec![rows], ..Exchange::default() };
    let pulled = store.exchange(worker(9), &ask, &[ids.into()], Executor::Serial, |len| vec![0; len]);
    (state, pulled.unwrap().1)
}

fn snapshot(store: &Arc<Store>) {
    let log: &UpdateLog = store.log.active().unwrap();
    store.write_base(log).unwrap();
}

/// A server and the steps its workers have made.
struct Job {
    store: Arc<Store>,
    random: SplitMix,
    steps: [u64; WORKERS as usize],
    replaced: u64,
    claims: u64,
}

impl Job {
    /// Does one thing that is acknowledged; `rounds` makes pushes gradients of rounds.
    fn act(&mut self, rounds: bool) {
        let index = self.random.below(WORKERS as usize);
        let from = worker(index as u32);
        match self.random.below(12) {
            0 => {
                self.replaced += 1;
                let range = Range { count: NUMBERS as u64, ..Range::default() };
                let ask = Assign { replaces: true, number: self.replaced, ranges: vec![range], ..Assign::default() };
                let body = [Bytes::from(numbers(&mut self.random, NUMBERS))];
                self.store.replace(worker(0), &ask, &body).unwrap();
            }
            1 => {
                self.claims += 1;
                let ask = ClaimBlock { round: self.claims / 4, number: self.claims };
                self.store.claim_block(from, ask).unwrap();
            }
            2 => drop(self.store.advance(from, &proto::Advance { clock: Some(self.claims), ..Default::default() })),
            3 => drop(self.store.fence(worker(20 + index as u32)).unwrap()),
            4 if self.random.below(3) == 0 => snapshot(&self.store),
            _ if rounds => self.round(index),
            _ => {
                self.steps[index] += 1;
                let message = push(&mut self.random, self.steps[index], None);
                exchange(&self.store, from, &message).unwrap();
                // Sent again: nothing changes.
                if self.random.below(4) == 0 {
                    exchange(&self.store, from, &message).unwrap();
                }
            }
        }
    }

    /// A worker contributes to the open round, whose second gradient closes it.
    fn round(&mut self, index: usize) {
        let from = worker(index as u32);
        let round = self.store.join(from, &proto::Join { replicas_to_aggregate: 2 }).unwrap();
        self.steps[index] += 1;
        let step = self.steps[index];
        let message = push(&mut self.random, step, Some(round));
        exchange(&self.store, from, &message).unwrap();
        if self.random.below(4) > 0 {
            let ask = proto::Arrive { step, round, replicas_to_aggregate: 2, ..Default::default() };
            self.store.arrive(from, &ask).unwrap();
        }
    }
}

fn survives(rounds: bool) {
    for seed in 0..12 {
        let folder = tempfile::tempdir().unwrap();
        let (store, mut copies) = (started(folder.path()), Vec::new());
        let mut job = Job { store, random: SplitMix::new(seed), steps: [0; 3], replaced: 0, claims: 0 };
        let mut here = folder.path().to_owned();
        for _ in 0..4 {
            let acts = job.random.below(40);
            (0..acts).for_each(|_| job.act(rounds));
            let (next, copy) = recovered(&job.store, &here).unwrap();
            let (expected, found) = (content(&job.store, 0), content(&next, 0));
            assert_eq!(expected.0, found.0, "seed {seed}");
            assert!(expected.1 == found.1, "seed {seed}: the values differ");
            // The rounds that were open have the same gradients.
            let open = next.closed() + 1;
            if rounds {
                let (one, other) = (recovered(&job.store, &here).unwrap(), recovered(&next, copy.path()).unwrap());
                assert!(content(&one.0, open).1 == content(&other.0, open).1, "seed {seed}: the open round differs");
            }
            assert!(next.replayed().is_some() && next.is_ready() && next.has_log());
            job.store = next;
            here = copy.path().to_owned();
            copies.push(copy);
        }
    }
}

#[test]
fn a_server_that_is_killed_continues_with_every_acknowledged_update() {
    survives(false);
}

#[test]
fn a_server_that_is_killed_continues_with_its_rounds() {
    survives(true);
}

#[test]
fn a_full_log_refuses_updates_and_takes_them_after_a_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let store = started(folder.path());
    let mut random = SplitMix::new(1);
    let mut step = 0;
    let refused = loop {
        step += 1;
        let message = push(&mut random, step, None);
        if let Err(error) = exchange(&store, worker(0), &message) {
            break (error, message);
        }
        assert!(step < 1000, "the log is never full");
    };
    assert_eq!(refused.0.code(), Code::LogFull, "{}", refused.0);
    // The thread may have written one meanwhile: a second one does no harm.
    while exchange(&store, worker(0), &refused.1).is_err() {
        std::thread::yield_now();
    }
    let progress = store.applied.all();
    assert_eq!((progress[0].1.step, progress.len()), (step, 1));
    let (next, _copy) = recovered(&store, folder.path()).unwrap();
    assert!(content(&store, 0) == content(&next, 0));
}

#[test]
fn a_damaged_log_and_a_damaged_snapshot_are_refused_with_a_code() {
    for damaged in ["segment-00000", "base-00000000000000000064/state"] {
        let folder = tempfile::tempdir().unwrap();
        let store = started(folder.path());
        exchange(&store, worker(0), &push(&mut SplitMix::new(1), 1, None)).unwrap();
        let path = folder.path().join("ps-0").join(damaged);
        let mut bytes = std::fs::read(&path).unwrap();
        let at = bytes.len().min(5000) - 10;
        bytes[at] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let error = recovered(&store, folder.path()).err().expect("it is refused");
        assert_eq!(error.code(), Code::LogDamaged, "{error}");
    }
}

#[test]
fn a_server_without_a_snapshot_is_empty_and_one_whose_job_is_over_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::recover(plan(folder.path())).unwrap();
    assert!(!store.is_ready() && store.replayed().is_none());
    store.create(&specs()).unwrap();
    store.make_ready().unwrap();
    assert!(folder.path().join("ps-0").is_dir());
    store.remove_log();
    assert!(!store.has_log() && !folder.path().join("ps-0").exists());
}

/// Measures what a log adds to an exchange, in turns with a server without one:
/// `cargo test --release -p phalanx-ps --lib -- --ignored --nocapture cost`.
#[test]
#[ignore = "a measurement"]
fn cost_of_a_log() {
    let base = if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "/tmp" };
    for (what, numbers, rows) in
        [("dense, 2.4 MB", 600_000_usize, 0_usize), ("dense, 16 KB", 4_000, 0), ("8,000 rows of 16", 0, 8_000)]
    {
        let folder = tempfile::tempdir_in(base).unwrap();
        let plan =
            LogPlan { segment_bytes: 32 << 20, most_segments: 32, snapshot_after: 256 << 20, ..plan(folder.path()) };
        let stores = [Arc::new(Store::default()), Arc::new(Store::with_log(plan))];
        let kind = ItemKind::Dense { shape: Shape::new([numbers.max(1)]).unwrap(), rows: 0..numbers.max(1) };
        let dense = ItemSpec { name: "w".into(), optimizer: Adagrad::new(0.1).into(), kind };
        let kind = ItemKind::Table { dim: 16, initializer: RowInitializer::constant(0.0), pinned: None };
        let table = ItemSpec { name: "t".into(), optimizer: Adagrad::new(0.1).into(), kind };
        for store in &stores {
            store.create(&[dense.clone(), table.clone()]).unwrap();
            store.make_ready().unwrap();
        }
        let range = Range { count: numbers as u64, ..Range::default() };
        let ids: Vec<u8> = (0..rows as i64).flat_map(|id| (id * 7).to_le_bytes()).collect();
        let some = Rows { handle: 1, count: rows as u64, ..Rows::default() };
        let parts = [vec![0x3c; 4 * numbers], ids.clone(), vec![0x3c; 64 * rows], ids];
        let body: Vec<Bytes> = parts.into_iter().map(Bytes::from).collect();
        let mut times = [Vec::new(), Vec::new()];
        for step in 1..=1500 {
            let update = Some(UpdatePart { step, part: 0, parts: 1 });
            let (dense_push, row_push) = (vec![range], vec![some]);
            let ask = Exchange {
                update,
                dense_push,
                row_push,
                dense_pull: vec![range],
                row_pull: vec![some],
                ..Exchange::default()
            };
            for (store, times) in stores.iter().zip(&mut times) {
                let started = std::time::Instant::now();
                store.exchange(worker(0), &ask, &body, Executor::Serial, |len| vec![0; len]).unwrap();
                times.push(started.elapsed());
            }
        }
        times.iter_mut().for_each(|times| times.sort_unstable());
        let at = |part: usize| times.each_ref().map(|times| times[times.len() / part].as_secs_f64() * 1e6);
        let ([without, with], [low, high]) = (at(2), at(10));
        eprintln!(
            "{what}: {without:.0} us without, {with:.0} us with ({:+.1} %); fastest tenth {low:.0} and {high:.0} us ({:+.1} %)",
            100.0 * (with / without - 1.0),
            100.0 * (high / low - 1.0)
        );
    }
}
