//! `flat_map`, `interleave`: a dataset for each element, concatenated or interleaved.

use super::chunk_buffer::ChunkBuffer;
use super::files::read_ahead;
use super::node::{CHUNK, ElementKind, Stage};
use crate::Batch;
use crate::batch::Pick;
use crate::position::{Loader, Saver, damaged};
use phalanx_base::{Error, Result};

/// An inner input, and a key that is enough to open it again.
pub(crate) type Inner = (Vec<u8>, Box<dyn Stage>);

/// Where the inner inputs come from.
pub(crate) trait Inners: Send {
    /// Opens the next inner input.
    fn next_inner(&mut self) -> Result<Option<Inner>>;

    /// Opens an inner input again at a saved place.
    fn reopen(&mut self, key: &[u8], from: &mut Loader<'_>) -> Result<Box<dyn Stage>>;

    fn save(&self, out: &mut Saver);
}

/// An open inner input.
struct Slot {
    key: Vec<u8>,
    feed: ChunkBuffer,
}

/// Takes `block` elements from each of `cycle` inner inputs by turns.
///
/// As in TensorFlow, an input that has ended leaves its place empty until the turn comes round again; then the next
/// inner input takes it.
pub(crate) struct InterleaveStage<I> {
    inners: I,
    slots: Vec<Option<Slot>>,
    turn: usize,
    /// Elements taken in this turn.
    taken: usize,
    block: usize,
    kind: ElementKind,
    /// How many of the slots have a thread that reads ahead.
    threads: usize,
    inners_ended: bool,
    /// Elements that came before the error go first.
    failed: Option<Error>,
}

impl<I: Inners> InterleaveStage<I> {
    pub(crate) fn open(
        mut inners: I,
        cycle: usize,
        block: usize,
        threads: usize,
        kind: ElementKind,
        from: Option<&mut Loader<'_>>,
        load: impl FnOnce(&mut I, &mut Loader<'_>) -> Result<()>,
    ) -> Result<Self> {
        let mut slots: Vec<Option<Slot>> = Vec::new();
        let (mut turn, mut taken, mut inners_ended) = (0, 0, false);
        if let Some(from) = from {
            load(&mut inners, from)?;
            (turn, taken, inners_ended) = (from.usize()?, from.usize()?, from.flag()?);
            if turn >= cycle {
                return Err(damaged("a turn is beyond its cycle"));
            }
            let open_slots = from.usize()?;
            for index in 0..open_slots.min(cycle) {
                slots.push(if from.flag()? { Some(reopen(&mut inners, index < threads, kind, from)?) } else { None });
            }
        }
        Ok(Self { inners, slots, turn, taken, block, kind, threads, inners_ended, failed: None }.sized(cycle))
    }

    fn sized(mut self, cycle: usize) -> Self {
        self.slots.resize_with(cycle, || None);
        self
    }

    fn advance(&mut self) {
        self.taken = 0;
        self.turn = (self.turn + 1) % self.slots.len();
    }

    /// Opens the next inner input in the place whose turn it is; false when there is none and nothing is open.
    fn open_next(&mut self) -> Result<bool> {
        if !self.inners_ended {
            match self.inners.next_inner()? {
                Some((key, stage)) => {
                    let stage = ahead(stage, self.turn < self.threads, self.kind)?;
                    self.slots[self.turn] = Some(Slot { key, feed: ChunkBuffer::new(stage) });
                    return Ok(true);
                }
                None => self.inners_ended = true,
            }
        }
        self.advance();
        Ok(self.slots.iter().any(Option::is_some))
    }

    /// With one place, or with elements that travel alone, there is nothing to put together.
    fn next_whole(&mut self, max: usize) -> Result<Option<Batch>> {
        loop {
            let Some(slot) = &mut self.slots[self.turn] else {
                if self.open_next()? {
                    continue;
                }
                return Ok(None);
            };
            if let Some(chunk) = slot.feed.pass(max)? {
                self.taken = (self.taken + 1).min(self.block);
                if self.taken == self.block && self.slots.len() > 1 {
                    self.advance();
                }
                return Ok(Some(chunk));
            }
            self.slots[self.turn] = None;
            self.advance();
        }
    }

    /// Collects up to `max` rows from the slots' chunks.
    fn collect(&mut self, max: usize, mix: &mut Mixture) -> Result<()> {
        while mix.picks.len() < max {
            let turn = self.turn;
            let Some(slot) = &mut self.slots[turn] else {
                if self.open_next()? {
                    continue;
                }
                return Ok(());
            };
            let Some((chunk, used)) = slot.feed.fill(CHUNK)? else {
                self.slots[turn] = None;
                self.advance();
                continue;
            };
            let rows = (chunk.rows() - used).min(self.block - self.taken).min(max - mix.picks.len());
            if !mix.take(turn, chunk, used..used + rows) {
                return Ok(());
            }
            slot.feed.advance(rows);
            if slot.feed.unread() == 0 {
                mix.current[turn] = None;
            }
            self.taken += rows;
            if self.taken == self.block {
                self.advance();
            }
        }
        Ok(())
    }
}

impl<I: Inners> Stage for InterleaveStage<I> {
    fn next(&mut self, max: usize) -> Result<Option<Batch>> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if self.slots.len() == 1 || self.kind == ElementKind::Batches {
            return self.next_whole(max);
        }
        let mut mix = Mixture { chunks: Vec::new(), current: vec![None; self.slots.len()], picks: Vec::new() };
        if let Err(error) = self.collect(max.min(CHUNK), &mut mix) {
            if mix.picks.is_empty() {
                return Err(error);
            }
            self.failed = Some(error);
        }
        Ok(mix.finish())
    }

    fn save(&self, out: &mut Saver) {
        self.inners.save(out);
        out.u64(self.turn as u64);
        out.u64(self.taken as u64);
        out.flag(self.inners_ended);
        // Places never used yet are left out: a long cycle over few inputs stays small.
        let used = self.slots.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        out.u64(used as u64);
        for slot in &self.slots[..used] {
            out.flag(slot.is_some());
            if let Some(slot) = slot {
                out.bytes(&slot.key);
                slot.feed.save(out);
            }
        }
    }
}

fn reopen<I: Inners>(inners: &mut I, thread: bool, kind: ElementKind, from: &mut Loader<'_>) -> Result<Slot> {
    let key = from.bytes()?.to_vec();
    let feed = ChunkBuffer::open(Some(from), |from| {
        let Some(from) = from else { return Err(damaged("a place is missing")) };
        let used = from.u64()?;
        let mut stage = inners.reopen(&key, from)?;
        stage.skip(used, kind)?;
        ahead(stage, thread, kind)
    })?;
    Ok(Slot { key, feed })
}

fn ahead(stage: Box<dyn Stage>, thread: bool, kind: ElementKind) -> Result<Box<dyn Stage>> {
    if thread { read_ahead(stage, kind) } else { Ok(Box::new(Plain(stage))) }
}

/// A stage without a thread that saves itself as one with a thread does: the number of threads may change between
/// saving and restoring.
struct Plain(Box<dyn Stage>);

impl Stage for Plain {
    fn next(&mut self, max: usize) -> Result<Option<Batch>> {
        self.0.next(max)
    }

    fn save(&self, out: &mut Saver) {
        out.u64(0);
        self.0.save(out);
    }

    fn skip(&mut self, count: u64, kind: ElementKind) -> Result<u64> {
        self.0.skip(count, kind)
    }
}

/// Rows of several chunks, in the order of their turns.
struct Mixture {
    chunks: Vec<Batch>,
    /// Which of `chunks` a slot is at.
    current: Vec<Option<u32>>,
    picks: Vec<Pick>,
}

impl Mixture {
    /// Takes rows of a slot's chunk; false when they do not fit to those taken before.
    fn take(&mut self, slot: usize, chunk: &Batch, rows: std::ops::Range<usize>) -> bool {
        if self.current[slot].is_none() {
            if self.chunks.first().is_some_and(|first| !first.same_layout(chunk)) {
                return false;
            }
            self.current[slot] = Some(self.chunks.len() as u32);
            self.chunks.push(chunk.clone());
        }
        let batch = self.current[slot].unwrap_or(0);
        self.picks.extend(rows.map(|row| Pick { batch, row: row as u32 }));
        true
    }

    fn finish(self) -> Option<Batch> {
        let (first, last) = (*self.picks.first()?, *self.picks.last()?);
        if self.chunks.len() == 1 && last.row - first.row + 1 == self.picks.len() as u32 {
            return Some(self.chunks[0].slice(first.row as usize..last.row as usize + 1));
        }
        let chunks: Vec<&Batch> = self.chunks.iter().collect();
        Some(Batch::gather(&chunks, &self.picks))
    }
}
