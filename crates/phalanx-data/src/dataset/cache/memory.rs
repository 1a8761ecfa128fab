//! A cache in memory: filled by the first whole pass, read by the others.

use super::super::node::{CHUNK, ElementKind, Stage};
use super::Complete;
use crate::Batch;
use crate::position::Saver;
use phalanx_base::Result;
use std::sync::{Arc, PoisonError};

/// Passes elements on and keeps them, in whole chunks: what is asked for one by one is not kept one by one.
pub(super) struct FillStage {
    upstream: Box<dyn Stage>,
    kept: Vec<Batch>,
    /// Rows used of the last chunk kept.
    used: usize,
    complete: Complete,
    kind: ElementKind,
    done: u64,
}

impl FillStage {
    pub(super) fn new(upstream: Box<dyn Stage>, complete: Complete, kind: ElementKind) -> Self {
        Self { upstream, kept: Vec::new(), used: 0, complete, kind, done: 0 }
    }
}

impl Stage for FillStage {
    fn next(&mut self, max: usize) -> Result<Option<Batch>> {
        if self.kept.last().is_none_or(|last| self.used == self.kind.elements(last)) {
            let Some(chunk) = self.upstream.next(CHUNK)? else {
                let mut complete = self.complete.lock().unwrap_or_else(PoisonError::into_inner);
                // The first to finish wins; all passes have the same elements.
                complete.get_or_insert_with(|| Arc::new(std::mem::take(&mut self.kept)));
                return Ok(None);
            };
            self.kept.push(chunk);
            self.used = 0;
        }
        let Some(chunk) = self.kept.last() else { return Ok(None) };
        let end = self.kind.elements(chunk).min(self.used.saturating_add(max));
        let out = if self.kind == ElementKind::Rows { chunk.slice(self.used..end) } else { chunk.clone() };
        self.done += (end - self.used) as u64;
        self.used = end;
        Ok(Some(out))
    }

    fn save(&self, out: &mut Saver) {
        out.u64(self.done);
    }
}

/// Reads a complete cache.
pub(super) struct MemoryStage {
    chunks: Arc<Vec<Batch>>,
    kind: ElementKind,
    chunk: usize,
    row: usize,
    done: u64,
}

impl MemoryStage {
    pub(super) fn new(chunks: Arc<Vec<Batch>>, kind: ElementKind) -> Self {
        Self { chunks, kind, chunk: 0, row: 0, done: 0 }
    }

    fn advance(&mut self, elements: usize, of: usize) {
        self.done += elements as u64;
        self.row += elements;
        if self.row == of {
            self.chunk += 1;
            self.row = 0;
        }
    }
}

impl Stage for MemoryStage {
    fn next(&mut self, max: usize) -> Result<Option<Batch>> {
        let Some(chunk) = self.chunks.get(self.chunk) else { return Ok(None) };
        let of = self.kind.elements(chunk);
        let end = of.min(self.row.saturating_add(max));
        let out = if self.kind == ElementKind::Rows { chunk.slice(self.row..end) } else { chunk.clone() };
        self.advance(end - self.row, of);
        Ok(Some(out))
    }

    fn save(&self, out: &mut Saver) {
        out.u64(self.done);
    }

    fn skip(&mut self, count: u64, _: ElementKind) -> Result<u64> {
        let mut left = usize::try_from(count).unwrap_or(usize::MAX);
        while left > 0
            && let Some(chunk) = self.chunks.get(self.chunk)
        {
            let of = self.kind.elements(chunk);
            let here = left.min(of - self.row);
            self.advance(here, of);
            left -= here;
        }
        Ok(count - left as u64)
    }
}
