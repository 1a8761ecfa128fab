//! A dense shard: values with their slots, in chunks that are locked one at a time.
//!
//! Hot path: no allocation per chunk, and never two locks at once.
//!
//! `tests/loom` checks under every interleaving that a snapshot of a shard is consistent.

use super::lock;
use super::snapshot::{Clock, CowPage, SNAPSHOT_KINDS, SnapshotKind};
use crate::Executor;
use crate::plan::CHUNK;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Mutex};
use phalanx_base::{Code, Error, F32Block, Result, Shape, read_f32s};
use phalanx_optim::{Optimizer, Rule};
use std::ops::Range;

#[derive(Default)]
struct Chunk {
    /// Values, then each slot, all of the same length; empty before the first touch.
    numbers: Box<[f32]>,
    cow: CowPage,
    pending: Option<Pending>,
    /// Rounds below this one are applied or empty: later gradients for them are dropped.
    settled: u64,
}

/// Gradients of a round that is not closed yet (synchronous mode).
struct Pending {
    round: u64,
    count: u32,
    /// The learning rate of its newest gradient.
    rate: Option<f32>,
    sum: Box<[f32]>,
}

pub(crate) struct Dense {
    pub(crate) name: String,
    pub(crate) shape: Shape,
    pub(crate) rows: Range<usize>,
    pub(crate) optimizer: Optimizer,
    len: usize,
    chunks: Vec<Mutex<Chunk>>,
    /// Asynchronous updates, counted by their first part: the step number of rules that need one.
    updates: AtomicU64,
    /// Completed asynchronous changes.
    changes: AtomicU64,
    /// Rounds below this one are closed.
    closed: AtomicU64,
    clock: Arc<Clock>,
    /// Rounds below these are in the newest snapshots.
    snapshot_closed: [AtomicU64; SNAPSHOT_KINDS.len()],
}

impl Dense {
    /// Creates a shard of `rows` of a variable, starting at zero. A chunk takes memory when it is first touched.
    pub(crate) fn new(name: String, shape: Shape, rows: Range<usize>, optimizer: Optimizer, clock: Arc<Clock>) -> Self {
        let len = rows.len() * shape.row_elements();
        let chunks = (0..len.div_ceil(CHUNK)).map(|_| Mutex::default()).collect();
        let zero = AtomicU64::default;
        let (updates, changes, closed, snapshot_closed) = (zero(), zero(), zero(), [zero(), zero()]);
        Self { name, shape, rows, optimizer, len, chunks, updates, changes, closed, clock, snapshot_closed }
    }

    /// Returns the number of values.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns a version that grows with every change and is never 0.
    pub(crate) fn version(&self) -> u64 {
        1_u64
            .wrapping_add(self.changes.load(Ordering::Acquire))
            .wrapping_add(self.closed.load(Ordering::Acquire))
            .max(1)
    }

    /// Checks a range that came from outside.
    pub(crate) fn check(&self, start: u64, count: u64) -> Result<Range<usize>> {
        match start.checked_add(count) {
            Some(end) if end <= self.len as u64 => Ok(start as usize..end as usize),
            _ => Err(Error::new(
                Code::ShapeMismatch,
                format!("{:?} has {} numbers here, not {start}+{count}", self.name, self.len),
            )),
        }
    }

    /// Refuses a slot that the optimizer does not have; 0 is the value.
    pub(crate) fn check_slot(&self, slot: usize) -> Result<()> {
        if slot > self.optimizer.slot_count() {
            return Err(Error::new(Code::ShapeMismatch, format!("{:?} has no slot {slot}", self.name)));
        }
        Ok(())
    }

    /// Returns the optimizer, at the learning rate of an update if it has one.
    fn optimizer_at(&self, rate: Option<f32>) -> Optimizer {
        rate.map_or(self.optimizer, |rate| self.optimizer.with_learning_rate(rate))
    }

    /// Applies a gradient at once.
    pub(crate) fn push(
        &self,
        range: Range<usize>,
        gradient: &[u8],
        rate: Option<f32>,
        executor: Executor,
    ) -> Result<()> {
        let step = if range.start == 0 {
            self.updates.fetch_add(1, Ordering::AcqRel).saturating_add(1)
        } else {
            self.updates.load(Ordering::Acquire)
        };
        let rule = self.optimizer_at(rate).at_step(step);
        self.push_by(&rule, range, gradient, executor)?;
        self.changes.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    fn push_by(&self, rule: &Rule, range: Range<usize>, gradient: &[u8], executor: Executor) -> Result<()> {
        if let Some(middle) = middle(&range, executor) {
            let (one, other) = gradient.split_at(4 * (middle - range.start));
            let (one, other) = executor.join(
                || self.push_by(rule, range.start..middle, one, executor),
                || self.push_by(rule, middle..range.end, other, executor),
            );
            return one.and(other);
        }
        let (now, mut block) = (self.clock.now(), F32Block::default());
        self.each_chunk(&range, |chunk, inside, at| {
            chunk.cow.preserve(&chunk.numbers, now);
            let mut outcome = Ok(());
            block.each(&gradient[4 * at..4 * (at + inside.len())], |offset, run| {
                outcome = std::mem::replace(&mut outcome, Ok(()))
                    .and_then(|()| rule.apply_range(&mut chunk.numbers, inside.start + offset, run));
            });
            outcome
        })
    }

    /// Refuses a gradient for a round that does not consist of complete chunks. They are counted per chunk, so that a worker
    /// that dies between two parts leaves no chunk half counted.
    pub(crate) fn check_contribution(&self, range: &Range<usize>) -> Result<()> {
        let aligned = |at: usize| at.is_multiple_of(CHUNK) || at == self.len;
        if aligned(range.start) && aligned(range.end) {
            return Ok(());
        }
        Err(Error::new(Code::BadMessage, "a gradient for a round must consist of complete chunks")
            .at(self.name.clone()))
    }

    /// Adds a gradient to its round; returns `false` if the round is closed already.
    pub(crate) fn contribute(
        &self,
        round: u64,
        range: Range<usize>,
        gradient: &[u8],
        rate: Option<f32>,
        block: &mut F32Block,
    ) -> Result<bool> {
        self.check_contribution(&range)?;
        // A gradient for a later round proves that the earlier ones are closed.
        if round < self.close(round) {
            return Ok(false);
        }
        let mut taken = true;
        self.each_chunk(&range, |chunk, inside, at| {
            self.settle(chunk, round)?;
            if round < chunk.settled {
                // The round was closed since we looked.
                taken = false;
                return Ok(());
            }
            let n = inside.len();
            let first = || Pending { round, count: 0, rate, sum: vec![0.0; n].into_boxed_slice() };
            let pending = chunk.pending.get_or_insert_with(first);
            (pending.round, pending.rate) = (round, rate);
            pending.count += 1;
            block.each(&gradient[4 * at..4 * (at + n)], |offset, run| {
                pending.sum[offset..].iter_mut().zip(run).for_each(|(sum, x)| *sum += x);
            });
            Ok(())
        })?;
        Ok(taken)
    }

    /// Closes the rounds below `closed`; their gradients are applied when a chunk is next touched. Returns the newest such
    /// bound.
    pub(crate) fn close(&self, closed: u64) -> u64 {
        self.closed.fetch_max(closed, Ordering::AcqRel).max(closed)
    }

    /// Writes the values of `range` into `out`.
    pub(crate) fn pull(&self, range: Range<usize>, out: &mut [u8], executor: Executor) -> Result<()> {
        if let Some(middle) = middle(&range, executor) {
            let (one, other) = out.split_at_mut(4 * (middle - range.start));
            let (one, other) = executor.join(
                || self.pull(range.start..middle, one, executor),
                || self.pull(middle..range.end, other, executor),
            );
            return one.and(other);
        }
        let closed = self.closed.load(Ordering::Acquire);
        self.each_chunk(&range, |chunk, inside, at| {
            self.settle(chunk, closed)?;
            out[4 * at..][..4 * inside.len()].copy_from_slice(bytemuck::cast_slice(&chunk.numbers[inside]));
            Ok(())
        })
    }

    /// Replaces the values of `range`, or a slot, counted from 1.
    pub(crate) fn assign(&self, slot: usize, range: Range<usize>, values: &[u8]) -> Result<()> {
        self.check_slot(slot)?;
        self.each_chunk(&range, |chunk, inside, at| {
            let first = slot * chunk.numbers.len() / (1 + self.optimizer.slot_count());
            read_f32s(&values[4 * at..], &mut chunk.numbers[first + inside.start..first + inside.end]);
            Ok(())
        })?;
        self.changes.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Replaces the values of `range` in a model in training, with the gradients of rounds below `closed`; slots are kept.
    pub(crate) fn replace(&self, closed: u64, range: Range<usize>, values: &[u8]) -> Result<()> {
        let closed = self.close(closed);
        let now = self.clock.now();
        self.each_chunk(&range, |chunk, inside, at| {
            self.settle(chunk, closed)?;
            chunk.cow.preserve(&chunk.numbers, now);
            read_f32s(&values[4 * at..], &mut chunk.numbers[inside]);
            Ok(())
        })?;
        self.changes.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Sets the number of updates, as a restore does.
    pub(crate) fn set_updates(&self, updates: u64, closed: u64) {
        self.updates.store(updates, Ordering::Release);
        self.close(closed);
    }

    /// Begins a snapshot of the rounds below `closed` and returns the numbers of updates and rounds in it. Updates wait
    /// meanwhile.
    pub(crate) fn begin_snapshot(&self, kind: SnapshotKind, closed: u64) -> (u64, u64) {
        let closed = self.close(closed);
        self.snapshot_closed[kind as usize].store(closed, Ordering::Release);
        (self.updates.load(Ordering::Acquire), closed)
    }

    /// Calls `each` with the values (`part` 0) or a slot (from 1) at the kind's newest snapshot, chunk by chunk.
    pub(crate) fn read_snapshot(
        &self,
        kind: SnapshotKind,
        part: usize,
        mut each: impl FnMut(&[f32]) -> Result<()>,
    ) -> Result<()> {
        let closed = self.snapshot_closed[kind as usize].load(Ordering::Acquire);
        let mut copy = Vec::with_capacity(CHUNK);
        for (index, chunk) in self.chunks.iter().enumerate() {
            let len = CHUNK.min(self.len - index * CHUNK);
            copy.clear();
            {
                let mut chunk = lock(chunk);
                self.settle(&mut chunk, closed)?;
                match chunk.cow.read_snapshot(kind, &chunk.numbers) {
                    [] if part == 0 => copy.resize(len, 0.0),
                    [] => copy.resize(len, self.optimizer.slot_init(part - 1)),
                    numbers => copy.extend_from_slice(&numbers[part * len..][..len]),
                }
            }
            each(&copy)?;
        }
        Ok(())
    }

    /// Drops the copies for `snapshot`.
    pub(crate) fn release_snapshot(&self, kind: SnapshotKind, snapshot: u64) {
        self.chunks.iter().for_each(|chunk| lock(chunk).cow.release(kind, snapshot));
    }

    /// Applies the mean of a closed round.
    fn settle(&self, chunk: &mut Chunk, closed: u64) -> Result<()> {
        chunk.settled = chunk.settled.max(closed);
        match &mut chunk.pending {
            Some(pending) if pending.round < closed && pending.count > 0 => {
                for kind in SNAPSHOT_KINDS {
                    if pending.round >= self.snapshot_closed[kind as usize].load(Ordering::Acquire) {
                        chunk.cow.preserve_for(kind, &chunk.numbers, self.clock.now());
                    }
                }
                let scale = 1.0 / pending.count as f32;
                pending.sum.iter_mut().for_each(|sum| *sum *= scale);
                let rule = self.optimizer_at(pending.rate).at_step(pending.round + 1);
                rule.apply(&mut chunk.numbers, &pending.sum)?;
                pending.count = 0;
                pending.sum.fill(0.0);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Calls `each` for every chunk that `range` touches, with the chunk, the part inside it, and that part's position in
    /// `range`.
    fn each_chunk(
        &self,
        range: &Range<usize>,
        mut each: impl FnMut(&mut Chunk, Range<usize>, usize) -> Result<()>,
    ) -> Result<()> {
        let mut at = range.start;
        while at < range.end {
            let (index, first) = (at / CHUNK, at % CHUNK);
            let n = (CHUNK - first).min(range.end - at);
            let mut chunk = lock(&self.chunks[index]);
            if chunk.numbers.is_empty() {
                let numbers = CHUNK.min(self.len - index * CHUNK);
                let mut numbers: Box<[f32]> = vec![0.0; numbers * (1 + self.optimizer.slot_count())].into();
                self.optimizer.init_slots(&mut numbers);
                // The snapshot needs no copy of what was never touched.
                chunk.numbers = numbers;
            }
            each(&mut chunk, first..first + n, at - range.start)?;
            at += n;
        }
        Ok(())
    }
}

/// Returns where to split a range of many chunks for two threads.
fn middle(range: &Range<usize>, executor: Executor) -> Option<usize> {
    executor.splits(range.len(), 4 * CHUNK).then(|| usize::midpoint(range.start, range.end) / CHUNK * CHUNK)
}
