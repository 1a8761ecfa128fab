//! `unbatch`: batches become rows.

use super::chunk_buffer::ChunkBuffer;
use super::node::{CHUNK, Context, ElementKind, Node, Op, Stage};
use crate::position::{Loader, Saver};
use crate::{Batch, Column, Dataset};
use phalanx_base::{Code, Error, Result};

struct UnbatchOp;

impl Op for UnbatchOp {
    fn describe(&self) -> String {
        "unbatch".to_string()
    }

    fn open(&self, inputs: &[Node], cx: Context, from: Option<&mut Loader<'_>>) -> Result<Box<dyn Stage>> {
        let split = inputs[0].kind() == ElementKind::Rows;
        let feed = ChunkBuffer::open(from, |from| {
            let stage = inputs[0].open(cx.child(0), from)?;
            Ok(Box::new(NotEmpty { stage, split }) as Box<dyn Stage>)
        })?;
        Ok(Box::new(UnbatchStage { feed }))
    }

    fn kind(&self, _: &[Node]) -> ElementKind {
        ElementKind::Rows
    }

    fn batch_size(&self, _: &[Node]) -> Option<usize> {
        None
    }
}

struct UnbatchStage {
    feed: ChunkBuffer,
}

impl Stage for UnbatchStage {
    fn next(&mut self, max: usize) -> Result<Option<Batch>> {
        self.feed.take(max, CHUNK)
    }

    fn save(&self, out: &mut Saver) {
        self.feed.save(out);
    }
}

/// The input's batches as chunks of rows; those without rows are passed over.
struct NotEmpty {
    stage: Box<dyn Stage>,
    /// Rows of tensors are split along their first dimension.
    split: bool,
}

impl Stage for NotEmpty {
    fn next(&mut self, max: usize) -> Result<Option<Batch>> {
        // A row may become many: few at a time keep the chunk small.
        let max = if self.split { 1 } else { max };
        while let Some(chunk) = self.stage.next(max)? {
            let rows = if self.split { split_row(&chunk)? } else { chunk };
            if !rows.is_empty() {
                return Ok(Some(rows));
            }
        }
        Ok(None)
    }

    fn save(&self, out: &mut Saver) {
        self.stage.save(out);
    }
}

/// One row of tensors as the rows of their first dimension, without a copy.
fn split_row(row: &Batch) -> Result<Batch> {
    let columns: Vec<Column> = row
        .iter()
        .map(|(name, column)| {
            if column.is_ragged() {
                return Ok(column.items_as_rows());
            }
            column.first_dimension_as_rows().ok_or_else(|| {
                Error::new(Code::ShapeMismatch, "cannot unbatch an input with scalar components")
                    .because(format!("column {name:?} has one value per element"))
                    .help("unbatch after batch, or leave the column out with map")
            })
        })
        .collect::<Result<_>>()?;
    Batch::with_schema(row.schema().clone(), columns)
}

impl Dataset {
    /// Splits every batch into its rows; of an un-batched dataset, every tensor along its first dimension.
    ///
    /// ```
    /// use phalanx_data::Dataset;
    /// let data = Dataset::range(0, 7, 1).batch(3).unbatch();
    /// assert_eq!(data.iter()?.count(), 7);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    #[must_use]
    pub fn unbatch(self) -> Self {
        self.then(UnbatchOp)
    }
}
