//! A function over chunks on several threads, in order or as they are done.
//!
//! Threads take turns at the input, each with the next chunk in hand while others read theirs. At most two chunks per
//! thread are under way or waiting. Every chunk has a number; the position is the input's place before the first chunk
//! not wholly handed out, and which elements after that place have been handed out.

mod work;

use super::node::{Context, ElementKind, Node, Stage, open_input};
use super::transform::ChunkFn;
use crate::Batch;
use crate::position::{Loader, Saver, damaged};
use phalanx_base::{Code, Context as _, Result};
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use work::{Done, Shared, SharedInput, lock};

/// The consumer's side.
pub(crate) struct ParallelStage {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    ordered: bool,
    /// The chunk in hand.
    current: Option<(u64, Done, u64)>,
    /// The next chunk that is not wholly handed out, the input's place before it, and its first element.
    base: u64,
    base_place: Vec<u8>,
    base_element: u64,
    /// Chunks after `base` that are wholly handed out: (first, count, place after).
    finished: BTreeMap<u64, (u64, u64, Vec<u8>)>,
    /// Holes of an earlier position that lie after `base`.
    old_holes: Vec<(u64, u64)>,
}

impl ParallelStage {
    pub(crate) fn open(
        function: ChunkFn,
        threads: usize,
        ordered: bool,
        grain: usize,
        inputs: &[Node],
        cx: Context,
        from: Option<&mut Loader<'_>>,
    ) -> Result<Box<dyn Stage>> {
        let (mut holes, mut stage) = (Vec::new(), None);
        if let Some(from) = from {
            holes = load_holes(from)?;
            stage = Some(open_input(inputs, cx, Some(from))?);
        }
        let stage = stage.map_or_else(|| open_input(inputs, cx, None), Ok)?;
        let mut place = Saver::default();
        stage.save(&mut place);
        let old_holes = holes.clone();
        let shared = Arc::new(Shared {
            input: Mutex::new(SharedInput { stage, next: 0, elements: 0, holes, ended: false }),
            progress: Mutex::default(),
            work: Condvar::new(),
            result: Condvar::new(),
            function,
            kind: inputs[0].kind(),
            grain,
            window: 2 * threads,
        });
        let mut own = Self {
            shared,
            threads: Vec::new(),
            ordered,
            current: None,
            base: 0,
            base_place: place.into_vec(),
            base_element: 0,
            finished: BTreeMap::new(),
            old_holes,
        };
        for _ in 0..threads {
            let shared = own.shared.clone();
            let thread = std::thread::Builder::new().name("px-map".to_string()).spawn(move || shared.run());
            own.threads.push(thread.context(Code::Internal, "a thread for map cannot be started")?);
        }
        Ok(Box::new(own))
    }

    /// The next finished chunk, waiting for it.
    fn take_done(&mut self) -> Option<(u64, Done)> {
        let mut progress = lock(&self.shared.progress);
        loop {
            let ready = if self.ordered { progress.done.remove_entry(&self.base) } else { progress.done.pop_first() };
            if let Some((number, done)) = ready {
                progress.under_way -= 1;
                drop(progress);
                self.shared.work.notify_one();
                return Some((number, done));
            }
            if progress.under_way == 0 && progress.total.is_some() {
                return None;
            }
            progress = self.shared.result.wait(progress).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Notes that a chunk is wholly handed out, and moves the base over all that are.
    fn finish(&mut self, number: u64, done: Done) {
        self.finished.insert(number, (done.first, done.count, done.after));
        while let Some((first, count, after)) = self.finished.remove(&self.base) {
            self.base += 1;
            self.base_place = after;
            self.base_element = first + count;
        }
        let base = self.base_element;
        self.old_holes.retain(|&(first, count)| first + count > base);
    }
}

impl Stage for ParallelStage {
    fn next(&mut self, max: usize) -> Result<Option<Batch>> {
        loop {
            let Some((number, mut done, mut used)) = self.current.take() else {
                match self.take_done() {
                    Some((number, done)) => self.current = Some((number, done, 0)),
                    None => return Ok(None),
                }
                continue;
            };
            if let Some(piece) = done.outcome.pieces.pop_front() {
                let whole = self.shared.kind == ElementKind::Batches || piece.rows() <= max;
                let out = if whole {
                    piece
                } else {
                    done.outcome.pieces.push_front(piece.slice(max..piece.rows()));
                    piece.slice(0..max)
                };
                used += self.shared.kind.elements(&out) as u64;
                if done.outcome.pieces.is_empty() && done.outcome.error.is_none() {
                    self.finish(number, done);
                } else {
                    self.current = Some((number, done, used));
                }
                return Ok(Some(out));
            }
            if let Some(error) = done.outcome.error.take() {
                // Kept in hand without its error: the position stays before the element that failed.
                self.current = Some((number, done, used));
                return Err(error);
            }
            self.finish(number, done);
        }
    }

    fn save(&self, out: &mut Saver) {
        let mut holes: Vec<(u64, u64)> = self.old_holes.clone();
        holes.extend(self.finished.values().map(|&(first, count, _)| (first, count)));
        if let Some((_, done, used)) = &self.current {
            holes.push((done.first, *used));
        }
        holes.retain(|&(_, count)| count > 0);
        holes.sort_unstable();
        out.u64(holes.len() as u64);
        for (first, count) in holes {
            // A hole that began before the base was left behind with it.
            let start = first.max(self.base_element);
            out.u64(start - self.base_element);
            out.u64(count - (start - first));
        }
        out.raw(&self.base_place);
    }
}

fn load_holes(from: &mut Loader<'_>) -> Result<Vec<(u64, u64)>> {
    let mut holes = Vec::new();
    let mut last = 0_u64;
    for _ in 0..from.u64()? {
        let (first, count) = (from.u64()?, from.u64()?);
        if first < last {
            return Err(damaged("elements handed out overlap"));
        }
        last = first.checked_add(count).ok_or_else(|| damaged("a number is too long"))?;
        holes.push((first, count));
    }
    Ok(holes)
}

impl Drop for ParallelStage {
    fn drop(&mut self) {
        lock(&self.shared.progress).closed = true;
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
