//! The buffer at work.

use super::super::node::{CHUNK, ElementKind, Stage};
use super::super::random::Random;
use super::resume::Saved;
use crate::Batch;
use crate::batch::{RowReader, RowWriter};
use crate::position::Saver;
use phalanx_base::{Error, Result};
use std::collections::VecDeque;

/// One element of the buffer.
#[derive(Default)]
pub(super) struct Slot {
    /// A row.
    pub(super) bytes: Vec<u8>,
    /// Which of the layouts the row has.
    pub(super) layout: usize,
    /// Or a batch, where elements are batches.
    pub(super) batch: Option<Batch>,
}

/// A chunk of the input that has not wholly entered the buffer.
struct Waiting {
    chunk: Batch,
    next: usize,
    layout: usize,
}

pub(super) struct ShuffleStage {
    pub(super) upstream: Box<dyn Stage>,
    pub(super) kind: ElementKind,
    pub(super) buffer: usize,
    /// Rows asked of the input at once: an eighth of the buffer, so that little more than the buffer is held.
    pub(super) block: usize,
    random: Random,
    /// Elements drawn in this pass.
    pub(super) drawn: u64,
    pub(super) slots: Vec<Slot>,
    /// The slots' places in the input's order.
    pub(super) ordinals: Vec<u64>,
    /// The slot drawn last: the next element takes it.
    pub(super) hole: Option<usize>,
    waiting: Option<Waiting>,
    /// The place in the input's order of the next element to enter a slot.
    pub(super) next_ordinal: u64,
    /// An empty batch of every layout seen.
    layouts: Vec<Batch>,
    /// For every read from the input: the place in its order of the first element, and the input's place before.
    pub(super) marks: VecDeque<(u64, Vec<u8>)>,
    /// No element in the buffer is older than this; looked up now and then, since it can only grow.
    pub(super) oldest: u64,
    pub(super) looked_up: u64,
    pub(super) ended: bool,
    failed: Option<Error>,
}

/// Rows on their way out, all of one layout.
struct Output {
    reader: RowReader,
    layout: usize,
    count: usize,
}

impl ShuffleStage {
    pub(super) fn new(upstream: Box<dyn Stage>, kind: ElementKind, buffer: usize, random: Random) -> Self {
        Self {
            upstream,
            kind,
            buffer,
            block: (buffer / 8).clamp(1, CHUNK),
            random,
            drawn: 0,
            slots: Vec::new(),
            ordinals: Vec::new(),
            hole: None,
            waiting: None,
            next_ordinal: 0,
            layouts: Vec::new(),
            marks: VecDeque::new(),
            oldest: 0,
            looked_up: 0,
            ended: false,
            failed: None,
        }
    }

    /// Whether an element can enter.
    pub(super) fn has_room(&self) -> bool {
        self.hole.is_some() || self.slots.len() < self.buffer
    }

    /// The slot of the next element that enters.
    pub(super) fn enter(&mut self) -> &mut Slot {
        let index = self.hole.take().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.ordinals.push(0);
            self.slots.len() - 1
        });
        self.ordinals[index] = self.next_ordinal;
        self.next_ordinal += 1;
        &mut self.slots[index]
    }

    /// At the end of the input nothing takes the slot drawn last.
    pub(super) fn close(&mut self) {
        if let Some(hole) = self.hole.take() {
            self.slots.swap_remove(hole);
            self.ordinals.swap_remove(hole);
        }
    }

    /// Reads the next chunk of the input, if it is needed.
    fn read(&mut self) -> Result<()> {
        if self.waiting.is_some() || self.ended || !self.has_room() {
            return Ok(());
        }
        let mut before = Saver::default();
        self.upstream.save(&mut before);
        self.marks.push_back((self.next_ordinal, before.into_vec()));
        match self.upstream.next(self.block)? {
            Some(chunk) => self.waiting = Some(Waiting { next: 0, layout: self.layout_of(&chunk), chunk }),
            None => self.ended = true,
        }
        Ok(())
    }

    pub(super) fn layout_of(&mut self, chunk: &Batch) -> usize {
        // Batches travel alone: whether they are alike does not matter.
        if self.kind == ElementKind::Batches {
            return 0;
        }
        self.layouts.iter().rposition(|known| known.same_layout(chunk)).unwrap_or_else(|| {
            self.layouts.push(chunk.empty_like());
            self.layouts.len() - 1
        })
    }

    /// Which slot is drawn; `None` when the buffer is empty.
    pub(super) fn pick(&mut self) -> Option<usize> {
        (!self.slots.is_empty()).then(|| self.random.below(self.slots.len()))
    }

    /// Draws rows while the waiting chunk lasts; false when the output is complete.
    fn draw(&mut self, waiting: &mut Option<Waiting>, max: usize, out: &mut Option<Output>) -> bool {
        let writer = waiting.as_ref().map(|waiting| RowWriter::new(&waiting.chunk));
        let (mut next, rows, layout) = waiting.as_ref().map_or((0, 0, 0), |w| (w.next, w.chunk.rows(), w.layout));
        let more = loop {
            if out.as_ref().is_some_and(|out| out.count == max) {
                break false;
            }
            while let (Some(writer), true) = (&writer, next < rows && self.has_room()) {
                let slot = self.enter();
                writer.write(next, &mut slot.bytes);
                slot.layout = layout;
                next += 1;
            }
            if self.has_room() {
                if !self.ended {
                    break true;
                }
                self.close();
            }
            let before = self.random.clone();
            let Some(index) = self.pick() else { break false };
            let slot = &self.slots[index];
            let like = &self.layouts[slot.layout];
            let output = out.get_or_insert_with(|| Output {
                reader: RowReader::new(like, max.min(self.buffer)),
                layout: slot.layout,
                count: 0,
            });
            if output.layout != slot.layout {
                // Not drawn after all: it begins the next batch.
                self.random = before;
                break false;
            }
            output.reader.read(&slot.bytes);
            output.count += 1;
            self.hole = Some(index);
            self.drawn += 1;
        };
        drop(writer);
        if let Some(waiting) = waiting {
            waiting.next = next;
        }
        more
    }

    /// Draws one batch.
    fn draw_batch(&mut self) -> Result<Option<Batch>> {
        while self.has_room() {
            self.read()?;
            match self.waiting.take() {
                Some(waiting) => self.enter().batch = Some(waiting.chunk),
                None => {
                    self.close();
                    break;
                }
            }
        }
        let Some(index) = self.pick() else { return Ok(None) };
        self.hole = Some(index);
        self.drawn += 1;
        Ok(self.slots[index].batch.take())
    }

    /// Draws up to `max` rows of one layout.
    fn draw_rows(&mut self, max: usize) -> Result<Option<Batch>> {
        let mut out = None;
        loop {
            if let Err(error) = self.read() {
                self.failed = Some(error);
                break;
            }
            let mut waiting = self.waiting.take();
            let more = self.draw(&mut waiting, max, &mut out);
            self.waiting = waiting.filter(|waiting| waiting.next < waiting.chunk.rows());
            if !more {
                break;
            }
        }
        let out = out.map(|out: Output| out.reader.finish(&self.layouts[out.layout]));
        if out.is_some() { Ok(out) } else { self.failed.take().map_or(Ok(None), Err) }
    }

    /// Forgets places nobody returns to. Looking for them costs a pass over the buffer: not for every batch.
    fn tidy(&mut self) {
        if self.drawn >= self.looked_up + (self.buffer / 4) as u64 {
            self.looked_up = self.drawn;
            self.oldest = self.ordinals.iter().copied().min().unwrap_or(self.next_ordinal);
            while self.marks.get(1).is_some_and(|&(first, _)| first <= self.oldest) {
                self.marks.pop_front();
            }
        }
    }
}

impl Stage for ShuffleStage {
    fn next(&mut self, max: usize) -> Result<Option<Batch>> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.tidy();
        match self.kind {
            ElementKind::Rows => self.draw_rows(max.min(CHUNK)),
            ElementKind::Batches => self.draw_batch(),
        }
    }

    fn save(&self, out: &mut Saver) {
        Saved::of(self).save(out);
    }
}
