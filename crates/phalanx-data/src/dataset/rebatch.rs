//! `rebatch`: the same rows in batches of other sizes.

use super::chunk_buffer::ChunkBuffer;
use super::node::{CHUNK, Context, ElementKind, Node, Op, Stage};
use crate::position::{Loader, Saver};
use crate::{Batch, Dataset};
use phalanx_base::{Code, Error, Result};
use std::ops::Range;
use std::sync::Arc;

struct RebatchOp {
    sizes: Arc<[usize]>,
}

impl Op for RebatchOp {
    fn describe(&self) -> String {
        format!("rebatch({:?})", self.sizes)
    }

    fn open(&self, inputs: &[Node], cx: Context, from: Option<&mut Loader<'_>>) -> Result<Box<dyn Stage>> {
        let open = |from: Option<&mut Loader<'_>>| inputs[0].open(cx.child(0), from);
        let (turn, feed) = match from {
            Some(from) => (from.usize()? % self.sizes.len(), ChunkBuffer::open(Some(from), open)?),
            None => (0, ChunkBuffer::open(None, open)?),
        };
        Ok(Box::new(RebatchStage { feed, sizes: self.sizes.clone(), turn, like: None }))
    }

    fn kind(&self, _: &[Node]) -> ElementKind {
        ElementKind::Batches
    }

    fn batch_size(&self, _: &[Node]) -> Option<usize> {
        self.sizes.iter().copied().max()
    }
}

struct RebatchStage {
    feed: ChunkBuffer,
    sizes: Arc<[usize]>,
    turn: usize,
    /// The columns of an empty batch.
    like: Option<Batch>,
}

impl RebatchStage {
    /// The next row's chunk, passing over batches without rows.
    fn more(&mut self) -> Result<bool> {
        while let Some((chunk, _)) = self.feed.fill(CHUNK)? {
            self.like.get_or_insert_with(|| chunk.empty_like());
            if !chunk.is_empty() {
                return Ok(true);
            }
            self.feed.advance(0);
        }
        Ok(false)
    }
}

impl Stage for RebatchStage {
    fn next(&mut self, _: usize) -> Result<Option<Batch>> {
        let size = self.sizes[self.turn];
        let mut parts = Vec::new();
        let mut have = 0;
        // An empty batch needs no rows, but it needs columns.
        while have < size || self.like.is_none() {
            if !self.more()? {
                break;
            }
            if have < size
                && let Some(part) = self.feed.take(size - have, CHUNK)?
            {
                have += part.rows();
                parts.push(part);
            }
        }
        if have == 0 && size > 0 {
            return Ok(None);
        }
        let Some(like) = &self.like else { return Ok(None) };
        self.turn = (self.turn + 1) % self.sizes.len();
        if parts.is_empty() { Ok(Some(like.clone())) } else { Batch::concat(&parts).map(Some) }
    }

    fn save(&self, out: &mut Saver) {
        out.u64(self.turn as u64);
        self.feed.save(out);
    }
}

/// Divides every batch by itself, and hands out some of the pieces.
struct SplitOp {
    pieces: usize,
    /// Which of them.
    own: Range<usize>,
    /// Pieces differ by a row at most, the longer first; otherwise all have as many rows and the last ones what is left.
    even: bool,
}

impl SplitOp {
    fn rows(&self, rows: usize, piece: usize) -> Range<usize> {
        if self.even {
            let (least, more) = (rows / self.pieces, rows % self.pieces);
            let start = piece * least + piece.min(more);
            return start..start + least + usize::from(piece < more);
        }
        let size = rows.div_ceil(self.pieces);
        let start = rows.min(piece * size);
        start..rows.min(start + size)
    }
}

impl Op for Arc<SplitOp> {
    fn describe(&self) -> String {
        if self.own == (0..self.pieces) {
            return format!("split each batch in {}", self.pieces);
        }
        format!("pieces {:?} of {} of each batch", self.own, self.pieces)
    }

    fn open(&self, inputs: &[Node], cx: Context, from: Option<&mut Loader<'_>>) -> Result<Box<dyn Stage>> {
        let (mut skipped, mut from) = (0, from);
        if let Some(from) = &mut from {
            skipped = from.u64()?;
        }
        let upstream = inputs[0].open(cx.child(0), from)?;
        let mut stage = SplitStage {
            upstream,
            before: Saver::default(),
            batch: None,
            how: Self::clone(self),
            next: self.own.start,
        };
        stage.skip(skipped, ElementKind::Batches)?;
        Ok(Box::new(stage))
    }

    fn batch_size(&self, _: &[Node]) -> Option<usize> {
        None
    }
}

struct SplitStage {
    upstream: Box<dyn Stage>,
    before: Saver,
    batch: Option<Batch>,
    how: Arc<SplitOp>,
    next: usize,
}

impl Stage for SplitStage {
    fn next(&mut self, _: usize) -> Result<Option<Batch>> {
        let batch = match self.batch.take() {
            Some(batch) => batch,
            None => {
                self.before.clear();
                self.upstream.save(&mut self.before);
                self.next = self.how.own.start;
                let Some(batch) = self.upstream.next(1)? else { return Ok(None) };
                batch
            }
        };
        let piece = batch.slice(self.how.rows(batch.rows(), self.next));
        self.next += 1;
        self.batch = (self.next < self.how.own.end).then_some(batch);
        Ok(Some(piece))
    }

    fn save(&self, out: &mut Saver) {
        if self.batch.is_some() {
            out.u64((self.next - self.how.own.start) as u64);
            out.raw(self.before.as_slice());
        } else {
            out.u64(0);
            self.upstream.save(out);
        }
    }
}

impl Dataset {
    /// Divides every batch into as many pieces, the last of them shorter or empty: where no batch size is known.
    pub(crate) fn split_batches(self, pieces: usize) -> Self {
        let pieces = pieces.max(1);
        self.then(Arc::new(SplitOp { pieces, own: 0..pieces, even: false }))
    }

    /// Of every batch, divided into `of` even pieces, those in `own`.
    pub(crate) fn pieces(self, of: usize, own: Range<usize>) -> Self {
        self.then(Arc::new(SplitOp { pieces: of.max(1), own, even: true }))
    }

    /// Returns the same rows in batches of these sizes, in rotation, across the borders of the input's batches.
    ///
    /// A size may be 0, as long as not all are. The last batch may be shorter. This is how a global batch is divided
    /// among replicas.
    ///
    /// ```
    /// use phalanx_data::Dataset;
    /// let data = Dataset::range(0, 7, 1).batch(3).rebatch([2, 1]);
    /// let sizes: Vec<usize> = data.iter()?.map(|b| b.unwrap().rows()).collect();
    /// assert_eq!(sizes, [2, 1, 2, 1, 1]);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    #[must_use]
    pub fn rebatch(self, sizes: impl Into<Vec<usize>>) -> Self {
        let sizes = sizes.into();
        if sizes.iter().all(|&size| size == 0) {
            return Self::broken(Error::new(Code::BadSetting, "rebatch needs a size greater than zero").at("rebatch"));
        }
        if self.node().kind() == ElementKind::Rows {
            return Self::broken(
                Error::new(Code::BadSetting, "rebatch takes batches, not rows").at("rebatch").help("call batch first"),
            );
        }
        self.then(RebatchOp { sizes: sizes.into() })
    }
}
