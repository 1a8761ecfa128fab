//! `batch`: rows become batches.

use super::node::{Context, ElementKind, Node, Op, Stage, open_input};
use crate::position::{Loader, Saver};
use crate::{Batch, Column, Dataset};
use phalanx_base::{Code, Error, Result};

struct BatchOp {
    size: usize,
    drop_remainder: bool,
}

impl Op for BatchOp {
    fn describe(&self) -> String {
        let rest = if self.drop_remainder { ", full ones only" } else { "" };
        format!("batch({}{rest})", self.size)
    }

    fn open(&self, inputs: &[Node], cx: Context, from: Option<&mut Loader<'_>>) -> Result<Box<dyn Stage>> {
        let (upstream, kind) = (open_input(inputs, cx, from)?, inputs[0].kind());
        Ok(Box::new(BatchStage { upstream, kind, size: self.size, drop_remainder: self.drop_remainder }))
    }

    fn kind(&self, _: &[Node]) -> ElementKind {
        ElementKind::Batches
    }

    fn batch_size(&self, _: &[Node]) -> Option<usize> {
        Some(self.size)
    }
}

struct BatchStage {
    upstream: Box<dyn Stage>,
    kind: ElementKind,
    size: usize,
    drop_remainder: bool,
}

impl Stage for BatchStage {
    fn next(&mut self, _: usize) -> Result<Option<Batch>> {
        let Some(parts) = collect(&mut *self.upstream, self.kind, self.size, self.drop_remainder)? else {
            return Ok(None);
        };
        let parts = match self.kind {
            ElementKind::Rows => parts,
            ElementKind::Batches => parts.iter().map(as_row).collect::<Result<_>>()?,
        };
        Batch::concat(&parts).map(Some).map_err(|error| error.at(format!("batch({})", self.size)))
    }

    fn save(&self, out: &mut Saver) {
        self.upstream.save(out);
    }
}

/// Exactly `size` elements in one or more chunks; fewer at the end, unless the remainder is dropped.
pub(super) fn collect(
    upstream: &mut dyn Stage,
    kind: ElementKind,
    size: usize,
    drop_remainder: bool,
) -> Result<Option<Vec<Batch>>> {
    let (mut parts, mut have) = (Vec::new(), 0);
    while have < size {
        let Some(chunk) = upstream.next(size - have)? else { break };
        have += kind.elements(&chunk);
        parts.push(chunk);
    }
    Ok((have == size || have > 0 && !drop_remainder).then_some(parts))
}

/// A batch of n rows as one row: a dimension more.
fn as_row(batch: &Batch) -> Result<Batch> {
    let columns = batch.iter().map(|(name, column)| {
        if column.is_ragged() {
            return Err(Error::new(Code::ShapeMismatch, format!("ragged column {name:?} cannot be batched twice"))
                .help("make it dense first with padded_batch, or unbatch"));
        }
        let shape = std::iter::once(column.rows()).chain(column.row_shape().iter().copied()).collect();
        Ok(Column::dense_row(column, shape))
    });
    Ok(Batch::from_raw(batch.schema().clone(), columns.collect::<Result<_>>()?, 1))
}

pub(super) fn size_error(name: &str) -> Error {
    Error::new(Code::BadSetting, "batch size must be greater than zero")
        .at(format!("{name}(0)"))
        .help("give the number of rows per step")
}

impl Dataset {
    /// Joins every `size` elements into a batch; the last may be shorter.
    ///
    /// Dense columns of different shapes are an error, as in TensorFlow; ragged ones stay ragged. Batching batches
    /// adds a dimension. A size of 0 is an error.
    ///
    /// ```
    /// use phalanx_data::Dataset;
    /// let sizes: Vec<usize> = Dataset::range(0, 7, 1).batch(3).iter()?.map(|b| b.unwrap().rows()).collect();
    /// assert_eq!(sizes, [3, 3, 1]);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    #[must_use]
    pub fn batch(self, size: usize) -> Self {
        self.batch_with(size, false)
    }

    /// [`Dataset::batch`], and whether a last batch that is not full is left out.
    #[must_use]
    pub fn batch_with(self, size: usize, drop_remainder: bool) -> Self {
        if size == 0 {
            return Self::broken(size_error("batch"));
        }
        self.then(BatchOp { size, drop_remainder })
    }
}
