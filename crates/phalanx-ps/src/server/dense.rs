//! A dense shard: values with their slots, in chunks that are locked one at a time.
//!
//! Hot path: no allocation per chunk, and never two locks at once.
//!
//! `tests/loom/tests/snapshot.rs` checks that a snapshot of a shard is one instant, under every interleaving.

use super::lock;
use super::snapshot::{Before, Clock};
use crate::Crew;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Mutex};
use phalanx_base::{Code, Error, F32Block, Result, Shape, read_f32s};
use phalanx_optim::{Optimizer, Rule};
use std::ops::Range;

/// Numbers in one chunk: 64 KiB of values. Small enough that two workers seldom meet in one, large enough that a
/// lock costs nothing beside the arithmetic.
pub const CHUNK: usize = 16 * 1024;

#[derive(Default)]
struct Chunk {
    /// Values, then each slot, all of the same length; empty before the first touch.
    numbers: Box<[f32]>,
    before: Before,
    pending: Option<Pending>,
    /// Rounds below this are applied, or came to nothing: what comes later for them is dropped.
    settled: u64,
}

/// Gradients of a round that is not closed yet (synchronous mode).
struct Pending {
    round: u64,
    count: u32,
    /// As its newest gradient wants it.
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
    /// Asynchronous updates, counted by their first part: the step number of rules that have one.
    updates: AtomicU64,
    /// Asynchronous changes, counted when they are in.
    changes: AtomicU64,
    /// Rounds below this are closed.
    closed: AtomicU64,
    clock: Arc<Clock>,
    /// Rounds below this are in the newest cut.
    cut_closed: AtomicU64,
}

impl Dense {
    /// A shard of `rows` of a variable, starting at zero. A chunk takes memory when it is first touched, so that what
    /// was only announced costs nothing.
    pub(crate) fn new(name: String, shape: Shape, rows: Range<usize>, optimizer: Optimizer, clock: Arc<Clock>) -> Self {
        let len = rows.len() * shape.row_elements();
        let chunks = (0..len.div_ceil(CHUNK)).map(|_| Mutex::default()).collect();
        let zero = AtomicU64::default;
        let (updates, changes, closed, cut_closed) = (zero(), zero(), zero(), zero());
        Self { name, shape, rows, optimizer, len, chunks, updates, changes, closed, clock, cut_closed }
    }

    /// How many numbers it has, slots not counted.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Grows with every change; never 0.
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

    /// Refuses a slot that the optimizer does not have; 0 is the value itself.
    pub(crate) fn check_slot(&self, slot: usize) -> Result<()> {
        if slot > self.optimizer.slot_count() {
            return Err(Error::new(Code::ShapeMismatch, format!("{:?} has no slot {slot}", self.name)));
        }
        Ok(())
    }

    /// The optimizer, at the learning rate that an update wants where it wants one.
    fn optimizer_at(&self, rate: Option<f32>) -> Optimizer {
        rate.map_or(self.optimizer, |rate| self.optimizer.with_learning_rate(rate))
    }

    /// Applies a gradient at once.
    pub(crate) fn push(&self, range: Range<usize>, gradient: &[u8], rate: Option<f32>, crew: Crew) -> Result<()> {
        let step = if range.start == 0 {
            self.updates.fetch_add(1, Ordering::AcqRel).saturating_add(1)
        } else {
            self.updates.load(Ordering::Acquire)
        };
        let rule = self.optimizer_at(rate).at_step(step);
        self.push_by(&rule, range, gradient, crew)?;
        self.changes.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    fn push_by(&self, rule: &Rule, range: Range<usize>, gradient: &[u8], crew: Crew) -> Result<()> {
        if let Some(middle) = middle(&range, crew) {
            let (one, other) = gradient.split_at(4 * (middle - range.start));
            let (one, other) = crew.both(
                || self.push_by(rule, range.start..middle, one, crew),
                || self.push_by(rule, middle..range.end, other, crew),
            );
            return one.and(other);
        }
        let (now, mut block) = (self.clock.now(), F32Block::default());
        self.each_chunk(&range, |chunk, inside, at| {
            chunk.before.keep(&chunk.numbers, now);
            let mut outcome = Ok(());
            block.each(&gradient[4 * at..4 * (at + inside.len())], |offset, run| {
                outcome = std::mem::replace(&mut outcome, Ok(()))
                    .and_then(|()| rule.apply_range(&mut chunk.numbers, inside.start + offset, run));
            });
            outcome
        })
    }

    /// Adds a gradient to its round; `false` if the round is closed already.
    pub(crate) fn contribute(
        &self,
        round: u64,
        range: Range<usize>,
        gradient: &[u8],
        rate: Option<f32>,
        block: &mut F32Block,
    ) -> Result<bool> {
        let whole = |at: usize| at.is_multiple_of(CHUNK) || at == self.len;
        if !whole(range.start) || !whole(range.end) {
            // Counted per chunk, so that a worker that dies between two parts leaves no chunk half counted.
            return Err(Error::new(Code::BadMessage, "a gradient for a round must consist of whole chunks")
                .at(self.name.clone()));
        }
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

    /// Takes note that rounds below `closed` are closed; their gradients are applied when a chunk is next touched.
    /// Answers the newest such bound.
    pub(crate) fn close(&self, closed: u64) -> u64 {
        self.closed.fetch_max(closed, Ordering::AcqRel).max(closed)
    }

    /// Writes the values of `range` into `out`.
    pub(crate) fn pull(&self, range: Range<usize>, out: &mut [u8], crew: Crew) -> Result<()> {
        if let Some(middle) = middle(&range, crew) {
            let (one, other) = out.split_at_mut(4 * (middle - range.start));
            let (one, other) =
                crew.both(|| self.pull(range.start..middle, one, crew), || self.pull(middle..range.end, other, crew));
            return one.and(other);
        }
        let closed = self.closed.load(Ordering::Acquire);
        self.each_chunk(&range, |chunk, inside, at| {
            self.settle(chunk, closed)?;
            out[4 * at..][..4 * inside.len()].copy_from_slice(bytemuck::cast_slice(&chunk.numbers[inside]));
            Ok(())
        })
    }

    /// Replaces the values of `range`, or one of their slots, counted from 1.
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

    /// Replaces the values of `range` in a model that is being trained. What came for rounds below `closed` is replaced
    /// with them; slots stay.
    pub(crate) fn replace(&self, closed: u64, range: Range<usize>, values: &[u8]) -> Result<()> {
        let closed = self.close(closed);
        let now = self.clock.now();
        self.each_chunk(&range, |chunk, inside, at| {
            self.settle(chunk, closed)?;
            chunk.before.keep(&chunk.numbers, now);
            read_f32s(&values[4 * at..], &mut chunk.numbers[inside]);
            Ok(())
        })?;
        self.changes.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Says how often it was updated, as a restore does.
    pub(crate) fn set_updates(&self, updates: u64, closed: u64) {
        self.updates.store(updates, Ordering::Release);
        self.close(closed);
    }

    /// Notes how far it is, and which rounds the cut contains; updates are held up meanwhile.
    pub(crate) fn cut(&self, closed: u64) -> (u64, u64) {
        let closed = self.close(closed);
        self.cut_closed.store(closed, Ordering::Release);
        (self.updates.load(Ordering::Acquire), closed)
    }

    /// Hands out the values (`part` 0) or a slot (from 1) as they were at the newest cut, chunk by chunk.
    pub(crate) fn at_cut(&self, part: usize, mut each: impl FnMut(&[f32]) -> Result<()>) -> Result<()> {
        let closed = self.cut_closed.load(Ordering::Acquire);
        let mut copy = Vec::with_capacity(CHUNK);
        for (index, chunk) in self.chunks.iter().enumerate() {
            let len = CHUNK.min(self.len - index * CHUNK);
            copy.clear();
            {
                let mut chunk = lock(chunk);
                self.settle(&mut chunk, closed)?;
                match chunk.before.at_cut(&chunk.numbers) {
                    [] if part == 0 => copy.resize(len, 0.0),
                    [] => copy.resize(len, self.optimizer.slot_init(part - 1)),
                    numbers => copy.extend_from_slice(&numbers[part * len..][..len]),
                }
            }
            each(&copy)?;
        }
        Ok(())
    }

    /// The cut needs no copies any more.
    pub(crate) fn let_go(&self, cut: u64) {
        self.chunks.iter().for_each(|chunk| lock(chunk).before.let_go(cut));
    }

    /// Applies the mean of a closed round.
    fn settle(&self, chunk: &mut Chunk, closed: u64) -> Result<()> {
        chunk.settled = chunk.settled.max(closed);
        match &mut chunk.pending {
            Some(pending) if pending.round < closed && pending.count > 0 => {
                if pending.round >= self.cut_closed.load(Ordering::Acquire) {
                    chunk.before.keep(&chunk.numbers, self.clock.now());
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

    /// Calls `each` for every chunk that `range` touches: with the chunk, the part inside of it, and that part's
    /// position in `range`.
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
                // What was never touched is what it starts as: the cut needs no copy of it.
                chunk.numbers = numbers;
            }
            each(&mut chunk, first..first + n, at - range.start)?;
            at += n;
        }
        Ok(())
    }
}

/// Where a range of many chunks is best cut in two for two threads.
fn middle(range: &Range<usize>, crew: Crew) -> Option<usize> {
    crew.shares(range.len(), 4 * CHUNK).then(|| usize::midpoint(range.start, range.end) / CHUNK * CHUNK)
}
