//! The threads' side: taking chunks of the input, and working on them.

use super::super::node::{ElementKind, Stage};
use super::super::prefetch::panicked;
use super::super::transform::{ChunkFn, Outcome};
use crate::Batch;
use crate::position::Saver;
use phalanx_base::Error;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The input, used by one thread at a time.
pub(super) struct SharedInput {
    pub(super) stage: Box<dyn Stage>,
    /// The number of the next chunk, and the input's elements before it.
    pub(super) next: u64,
    pub(super) elements: u64,
    /// Elements already handed out before the position was taken: (first, count), in order.
    pub(super) holes: Vec<(u64, u64)>,
    pub(super) ended: bool,
}

/// A chunk that a thread has finished.
pub(super) struct Done {
    pub(super) outcome: Outcome,
    /// The input's elements in it, as (first, count); those not in a hole.
    pub(super) first: u64,
    pub(super) count: u64,
    /// The input's place after it.
    pub(super) after: Vec<u8>,
}

/// Who is doing what.
#[derive(Default)]
pub(super) struct Progress {
    pub(super) done: BTreeMap<u64, Done>,
    /// Chunks taken from the input and not yet taken by the consumer.
    pub(super) under_way: usize,
    /// The number of chunks there are, once the end is known.
    pub(super) total: Option<u64>,
    pub(super) closed: bool,
}

/// What the threads and the consumer have in common.
pub(super) struct Shared {
    pub(super) input: Mutex<SharedInput>,
    pub(super) progress: Mutex<Progress>,
    pub(super) work: Condvar,
    pub(super) result: Condvar,
    pub(super) function: ChunkFn,
    pub(super) kind: ElementKind,
    pub(super) grain: usize,
    pub(super) window: usize,
}

impl Shared {
    pub(super) fn run(&self) {
        while let Some((number, chunk, mut done)) = self.take_work() {
            if let Some(chunk) = chunk {
                let work = AssertUnwindSafe(|| (self.function)(chunk));
                done.outcome = catch_unwind(work).unwrap_or_else(|panic| failed(panicked(&*panic)));
            }
            lock(&self.progress).done.insert(number, done);
            self.result.notify_one();
        }
        self.result.notify_one();
    }

    /// Waits for room, then takes the next chunk; `None` at the end. A failed read comes without a chunk.
    fn take_work(&self) -> Option<(u64, Option<Batch>, Done)> {
        let mut progress = lock(&self.progress);
        while !progress.closed && progress.total.is_none() && progress.under_way >= self.window {
            progress = self.work.wait(progress).unwrap_or_else(PoisonError::into_inner);
        }
        if progress.closed || progress.total.is_some() {
            return None;
        }
        progress.under_way += 1;
        drop(progress);
        let read = catch_unwind(AssertUnwindSafe(|| lock(&self.input).read(self.grain, self.kind)));
        let taken = read.unwrap_or_else(|panic| Some(lock(&self.input).fail(panicked(&*panic))));
        if taken.is_none() || taken.as_ref().is_some_and(|(_, chunk, _)| chunk.is_none()) {
            let mut progress = lock(&self.progress);
            progress.total = Some(lock(&self.input).next);
            progress.under_way -= usize::from(taken.is_none());
            drop(progress);
            self.work.notify_all();
        }
        taken
    }
}

impl SharedInput {
    fn read(&mut self, grain: usize, kind: ElementKind) -> Option<(u64, Option<Batch>, Done)> {
        while !self.ended {
            let max = match self.holes.first() {
                Some(&(first, count)) if first == self.elements => {
                    self.holes.remove(0);
                    match self.stage.skip(count, kind) {
                        Ok(skipped) => self.elements += skipped,
                        Err(error) => return Some(self.fail(error)),
                    }
                    continue;
                }
                Some(&(first, _)) => grain.min(usize::try_from(first - self.elements).unwrap_or(grain)),
                None => grain,
            };
            return match self.stage.next(max) {
                Ok(Some(chunk)) => Some(self.number(chunk, kind)),
                Ok(None) => {
                    self.ended = true;
                    None
                }
                Err(error) => Some(self.fail(error)),
            };
        }
        None
    }

    fn number(&mut self, chunk: Batch, kind: ElementKind) -> (u64, Option<Batch>, Done) {
        let (number, first, count) = (self.next, self.elements, kind.elements(&chunk) as u64);
        let mut after = Saver::default();
        self.stage.save(&mut after);
        self.next += 1;
        self.elements += count;
        (number, Some(chunk), Done { outcome: Outcome::default(), first, count, after: after.into_vec() })
    }

    fn fail(&mut self, error: Error) -> (u64, Option<Batch>, Done) {
        self.ended = true;
        let number = self.next;
        self.next += 1;
        (number, None, Done { outcome: failed(error), first: self.elements, count: 0, after: Vec::new() })
    }
}

fn failed(error: Error) -> Outcome {
    Err(error).into()
}

/// A thread that panics holds none of these locks in an inconsistent state: its panic is caught before.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
