//! `from_tensors`, `from_tensor_slices`: data already in memory.

use super::node::{Context, ElementKind, Node, Op, Shardability, Stage};
use crate::position::{Loader, Saver};
use crate::{Batch, Dataset};
use phalanx_base::Result;

struct MemoryOp {
    batch: Batch,
    kind: ElementKind,
}

impl Op for MemoryOp {
    fn describe(&self) -> String {
        let name = if self.kind == ElementKind::Rows { "from_tensor_slices" } else { "from_tensors" };
        format!("{name}({} rows)", self.batch.rows())
    }

    fn open(&self, _: &[Node], _: Context, from: Option<&mut Loader<'_>>) -> Result<Box<dyn Stage>> {
        let next = from.map_or(Ok(0), Loader::usize)?;
        Ok(Box::new(MemoryStage { batch: self.batch.clone(), kind: self.kind, next }))
    }

    fn kind(&self, _: &[Node]) -> ElementKind {
        self.kind
    }

    fn shardability(&self) -> Shardability {
        Shardability::Source
    }

    fn batch_size(&self, _: &[Node]) -> Option<usize> {
        (self.kind == ElementKind::Batches).then_some(self.batch.rows())
    }
}

struct MemoryStage {
    batch: Batch,
    kind: ElementKind,
    next: usize,
}

impl MemoryStage {
    fn left(&self) -> usize {
        self.kind.elements(&self.batch).saturating_sub(self.next)
    }
}

impl Stage for MemoryStage {
    fn next(&mut self, max: usize) -> Result<Option<Batch>> {
        let count = self.left().min(max);
        if count == 0 {
            return Ok(None);
        }
        let start = self.next;
        self.next += count;
        Ok(Some(match self.kind {
            ElementKind::Rows => self.batch.slice(start..self.next),
            ElementKind::Batches => {
                self.next = start + 1;
                self.batch.clone()
            }
        }))
    }

    fn save(&self, out: &mut Saver) {
        out.u64(self.next as u64);
    }

    fn skip(&mut self, count: u64, _: ElementKind) -> Result<u64> {
        let here = usize::try_from(count).unwrap_or(usize::MAX).min(self.left());
        self.next += here;
        Ok(here as u64)
    }
}

impl Dataset {
    /// A dataset of one element: the whole batch.
    ///
    /// ```
    /// use phalanx_data::{Batch, Column, Dataset};
    /// let data = Dataset::from_tensors(Batch::new([("x", Column::f32(vec![1.0, 2.0]))])?);
    /// assert_eq!(data.iter()?.count(), 1);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    #[must_use]
    pub fn from_tensors(batch: Batch) -> Self {
        Self::from_op(MemoryOp { batch, kind: ElementKind::Batches })
    }

    /// A dataset of the rows of a batch.
    ///
    /// ```
    /// use phalanx_data::{Batch, Column, Dataset};
    /// let data = Dataset::from_tensor_slices(Batch::new([("x", Column::f32(vec![1.0, 2.0, 3.0]))])?);
    /// let sizes: Vec<usize> = data.batch(2).iter()?.map(|batch| Ok(batch?.rows())).collect::<phalanx_base::Result<_>>()?;
    /// assert_eq!(sizes, [2, 1]);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    #[must_use]
    pub fn from_tensor_slices(batch: Batch) -> Self {
        Self::from_op(MemoryOp { batch, kind: ElementKind::Rows })
    }
}
