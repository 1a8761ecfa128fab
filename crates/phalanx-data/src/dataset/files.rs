//! The rows of a source's parts: part after part, or interleaved.

use super::interleave::{Inner, Inners, InterleaveStage};
use super::node::{CHUNK, Context, ElementKind, Node, Op, Shardability, Stage};
use super::prefetch::PrefetchStage;
use super::shard::rotated;
use crate::position::{Loader, Saver};
use crate::{Batch, Dataset, PartPosition, Reader, Source};
use phalanx_base::{Code, Error, Result};
use std::sync::Arc;

/// Reads the parts whose number leaves the remainder `index` when divided by `of`.
#[derive(Clone)]
pub(crate) struct FilesOp {
    pub(crate) source: Arc<dyn Source>,
    of: usize,
    index: usize,
    /// The number of shares that take turns with every round of a `repeat`; 1 if the share stays.
    turns: usize,
    /// How many parts are open at a time; each is read by its own thread when there are several.
    cycle: usize,
}

impl FilesOp {
    /// This worker's share of the parts. If it rotates, every round of a `repeat` takes the next share.
    pub(crate) fn share(&self, of: usize, index: usize, rotates: bool) -> Self {
        // Shares of shares: the i-th of every n-th.
        let turns = if rotates { of } else { 1 };
        Self { of: self.of * of, index: self.index + index * self.of, turns, ..self.clone() }
    }

    /// The share of a round.
    fn at_round(&self, round: u64) -> Self {
        let every = self.of / self.turns;
        let (first, share) = (self.index % every, self.index / every);
        Self { index: first + rotated(share, round, self.turns) * every, ..self.clone() }
    }

    /// How many parts this reads.
    pub(crate) fn count(&self) -> Result<usize> {
        let parts = self.source.parts()?;
        Ok(parts.saturating_sub(self.index).div_ceil(self.of))
    }
}

impl Op for FilesOp {
    fn describe(&self) -> String {
        let kind = self.source.kind();
        let turns = if self.cycle > 1 { format!(", {} by turns", self.cycle) } else { String::new() };
        if self.of > 1 {
            let rotates = if self.turns > 1 { ", rotating" } else { "" };
            format!("{kind}(part {} of {}{rotates}{turns})", self.index, self.of)
        } else {
            format!("{kind}{turns}")
        }
    }

    fn open(&self, _: &[Node], cx: Context, from: Option<&mut Loader<'_>>) -> Result<Box<dyn Stage>> {
        let op = self.at_round(cx.round);
        let parts = Parts { count: op.count()?, op, next: 0 };
        // Places beyond the number of files are never taken: the order is the same without them.
        let cycle = cx.options.threads_for(self.cycle).min(parts.count.max(1));
        let threads = if self.cycle > 1 { cycle } else { 0 };
        let stage = InterleaveStage::open(parts, cycle, 1, threads, ElementKind::Rows, from, |parts, from| {
            let (count, next) = (from.usize()?, from.usize()?);
            if count != parts.count || next > count {
                return Err(Error::new(Code::CheckpointMismatch, "the saved input position is of other files")
                    .because(format!(
                        "there were {count} {} files, now there are {}",
                        parts.op.source.kind(),
                        parts.count
                    ))
                    .help("restore the files, or start the input from its beginning"));
            }
            parts.next = next;
            Ok(())
        })?;
        Ok(Box::new(stage))
    }

    fn shardability(&self) -> Shardability {
        Shardability::Source
    }

    fn turns(&self) -> usize {
        self.turns
    }

    fn files(&self) -> Option<&FilesOp> {
        self.source.is_files().then_some(self)
    }
}

struct Parts {
    op: FilesOp,
    count: usize,
    next: usize,
}

impl Parts {
    fn part(&self, ordinal: usize) -> usize {
        self.op.index + ordinal * self.op.of
    }
}

impl Inners for Parts {
    fn next_inner(&mut self) -> Result<Option<Inner>> {
        if self.next == self.count {
            return Ok(None);
        }
        let mut key = Saver::default();
        key.u64(self.next as u64);
        let stage = PartStage::open(&self.op.source, self.part(self.next), None)?;
        self.next += 1;
        Ok(Some((key.into_vec(), Box::new(stage))))
    }

    fn reopen(&mut self, key: &[u8], from: &mut Loader<'_>) -> Result<Box<dyn Stage>> {
        let ordinal = Loader::new(key).usize()?;
        Ok(Box::new(PartStage::open(&self.op.source, self.part(ordinal), Some(from))?))
    }

    fn save(&self, out: &mut Saver) {
        out.u64(self.count as u64);
        out.u64(self.next as u64);
    }
}

/// One part: asks its reader for whole chunks, hands out what is wanted.
struct PartStage {
    reader: Box<dyn Reader>,
    /// The reader's place before the chunk in hand.
    before: PartPosition,
    chunk: Option<Batch>,
    used: usize,
}

impl PartStage {
    fn open(source: &Arc<dyn Source>, part: usize, from: Option<&mut Loader<'_>>) -> Result<Self> {
        let (mut before, mut used) = (PartPosition::START, 0);
        if let Some(from) = from {
            before = PartPosition { byte: from.u64()?, row: from.u64()?, line: from.u64()? };
            used = from.u64()?;
        }
        let mut stage = Self { reader: source.open(part, before)?, before, chunk: None, used: 0 };
        if stage.skip(used, ElementKind::Rows)? < used {
            let name = source.part_name(part);
            return Err(Error::new(
                Code::CheckpointMismatch,
                format!("{name} is shorter than the saved input position"),
            )
            .help("restore the file, or start the input from its beginning"));
        }
        Ok(stage)
    }
}

impl Stage for PartStage {
    fn next(&mut self, max: usize) -> Result<Option<Batch>> {
        if self.chunk.is_none() {
            self.before = self.reader.position();
            self.used = 0;
            self.chunk = self.reader.read(CHUNK)?.filter(|chunk| !chunk.is_empty());
        }
        let Some(chunk) = &self.chunk else { return Ok(None) };
        let end = chunk.rows().min(self.used.saturating_add(max));
        let rows = chunk.slice(self.used..end);
        self.used = end;
        if end == chunk.rows() {
            self.chunk = None;
            self.before = self.reader.position();
            self.used = 0;
        }
        Ok(Some(rows))
    }

    fn save(&self, out: &mut Saver) {
        out.u64(self.before.byte);
        out.u64(self.before.row);
        out.u64(self.before.line);
        out.u64(self.used as u64);
    }
}

impl Dataset {
    /// Returns the rows of a source, part after part: of this crate's (`csv`, `parquet`, …), or of your own format.
    #[must_use]
    pub fn from_source(source: Arc<dyn Source>) -> Self {
        Self::from_source_interleaved(source, 1)
    }

    /// Returns the rows of a source, interleaved: one row of each of `cycle` parts in turn, each read by its own thread.
    ///
    /// The order is the same every time. Unlike with `interleave` over the files, workers can still divide the files.
    #[must_use]
    pub fn from_source_interleaved(source: Arc<dyn Source>, cycle: usize) -> Self {
        if cycle == 0 {
            return Self::broken(Error::new(Code::BadSetting, "cycle_length must be > 0").at("reading files by turns"));
        }
        Self::from_op(FilesOp { source, of: 1, index: 0, turns: 1, cycle })
    }
}

/// Wraps a stage so that a thread reads ahead of it.
pub(crate) fn read_ahead(stage: Box<dyn Stage>, kind: ElementKind) -> Result<Box<dyn Stage>> {
    let elements = if kind == ElementKind::Rows { 2 * CHUNK } else { 2 };
    Ok(Box::new(PrefetchStage::start(stage, kind, elements)?))
}
