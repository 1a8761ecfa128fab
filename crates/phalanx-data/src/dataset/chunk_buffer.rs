//! Reads a stage in larger chunks than it passes on, and still has an exact position.

use super::node::Stage;
use crate::Batch;
use crate::position::{Loader, Saver};
use phalanx_base::Result;

/// An input with a chunk in hand.
pub(crate) struct ChunkBuffer {
    stage: Box<dyn Stage>,
    /// Where `stage` was before it gave `chunk`.
    before: Saver,
    chunk: Option<Batch>,
    used: usize,
    /// After an error the place before the failed read counts.
    failed: bool,
}

impl ChunkBuffer {
    pub(crate) fn new(stage: Box<dyn Stage>) -> Self {
        Self { stage, before: Saver::default(), chunk: None, used: 0, failed: false }
    }

    /// Opens a feed at a saved place. `open` opens its input.
    pub(crate) fn open(
        from: Option<&mut Loader<'_>>,
        open: impl FnOnce(Option<&mut Loader<'_>>) -> Result<Box<dyn Stage>>,
    ) -> Result<Self> {
        let Some(from) = from else { return Ok(Self::new(open(None)?)) };
        let used = from.usize()?;
        let mut feed = Self::new(open(Some(from))?);
        feed.pass_over(used)?;
        Ok(feed)
    }

    /// Takes rows of the next chunk as used already.
    fn pass_over(&mut self, mut rows: usize) -> Result<()> {
        while rows > 0 && self.fill(rows)?.is_some() {
            let here = rows.min(self.unread());
            self.advance(here);
            rows -= here;
        }
        Ok(())
    }

    /// The chunk in hand with the first row not yet used; reads one when there is none.
    pub(crate) fn fill(&mut self, max: usize) -> Result<Option<(&Batch, usize)>> {
        if self.chunk.is_none() {
            self.before.clear();
            self.stage.save(&mut self.before);
            self.used = 0;
            self.chunk = match self.stage.next(max) {
                Ok(chunk) => chunk,
                Err(error) => {
                    self.failed = true;
                    return Err(error);
                }
            };
        }
        Ok(self.chunk.as_ref().map(|chunk| (chunk, self.used)))
    }

    /// The rows of the chunk in hand not yet used.
    pub(crate) fn unread(&self) -> usize {
        self.chunk.as_ref().map_or(0, |chunk| chunk.rows() - self.used)
    }

    /// Marks rows of the chunk in hand as handed out.
    pub(crate) fn advance(&mut self, rows: usize) {
        self.used += rows;
        if self.unread() == 0 {
            self.chunk = None;
            self.used = 0;
        }
    }

    /// Up to `max` rows of the chunk in hand.
    pub(crate) fn take(&mut self, max: usize, read: usize) -> Result<Option<Batch>> {
        let Some((chunk, used)) = self.fill(read)? else { return Ok(None) };
        let end = chunk.rows().min(used.saturating_add(max));
        let rows = chunk.slice(used..end);
        self.advance(end - used);
        Ok(Some(rows))
    }

    /// Passes on what the stage gives, where nothing is in hand; for elements that travel alone.
    pub(crate) fn pass(&mut self, max: usize) -> Result<Option<Batch>> {
        if self.chunk.is_some() {
            return self.take(max, max);
        }
        self.stage.next(max)
    }

    pub(crate) fn save(&self, out: &mut Saver) {
        if self.chunk.is_some() || self.failed {
            out.u64(self.used as u64);
            out.raw(self.before.as_slice());
        } else {
            out.u64(0);
            self.stage.save(out);
        }
    }
}
