//! `Transform`: a plan for a list of columns, run over batches.

mod build;
mod cross;
mod features;
mod id_rows;
mod output;
mod plan;
mod raw;
mod sequence;
mod step;

pub(crate) use cross::cross_columns;
pub use features::{Features, SparseIds};
pub(crate) use raw::fingerprint_of;
pub(crate) use step::bucket;

use crate::columns::{Combiner, TableSpec};
use crate::layout::matrix;
use id_rows::IdRows;
use output::{Matrix, Output, prune};
use phalanx_base::{Error, Result};
use phalanx_data::Batch;
use raw::Raw;
use std::ops::Range;
use std::sync::Arc;
use step::Step;

/// What a list of feature columns makes of a batch, worked out once.
///
/// ```
/// use phalanx_data::{Batch, Column};
/// use phalanx_feature::*;
/// let columns = [
///     embedding_column(categorical_column_with_vocabulary_list("job", ["clerk", "cook"]), 8),
///     bucketized_column("age", [30, 60]),
/// ];
/// let plan = Transform::dense_features(&columns)?;
/// let batch = Batch::new([("age", Column::f32(vec![45.0, 20.0])), ("job", Column::text(["cook", "smith"]))])?;
/// let features = plan.apply(&batch)?;
///
/// // Columns are in the order of their names, as in TensorFlow.
/// assert_eq!(plan.columns()[0].name, "age_bucketized");
/// assert_eq!(features.dense, [0.0, 1.0, 0.0, 1.0, 0.0, 0.0]);
/// assert_eq!(plan.tables()[0].name, "job_embedding");
/// assert_eq!((features.sparse[0].row(0), features.sparse[0].row(1)), (&[1][..], &[][..]));
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone)]
pub struct Transform {
    raws: Vec<Arc<str>>,
    steps: Vec<Step>,
    /// The column of every step, for messages.
    names: Vec<String>,
    outputs: Vec<Output>,
    columns: Vec<PlannedColumn>,
    tables: Vec<TableSpec>,
    dense_width: usize,
    input_width: usize,
    is_sequence: bool,
}

/// A column and where its features are to be found.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedColumn {
    /// TensorFlow's name of the column.
    pub name: String,
    /// The name as it stands in the names of variables.
    pub scope: String,
    /// Where its features are.
    pub slot: Slot,
    /// Its place in TensorFlow's input layer, where all dense columns and embeddings stand side by side in the order
    /// of their names; empty for a column that only a linear model takes.
    pub input: Range<usize>,
}

/// Where a column's features are among [`Features`].
#[derive(Clone, Debug, PartialEq)]
pub enum Slot {
    /// The numbers from `start` of every row of [`Features::dense`].
    Dense {
        /// The first number.
        start: usize,
        /// How many.
        width: usize,
    },
    /// Ids for the weights of a linear model.
    Ids {
        /// The place in [`Features::sparse`].
        index: usize,
        /// How many different ids there are.
        buckets: usize,
        /// How the weights of a row's ids are put together.
        combiner: Combiner,
    },
    /// Ids to look up in an embedding table.
    Table {
        /// The place in [`Features::sparse`].
        index: usize,
        /// The place in [`Transform::tables`].
        table: usize,
        /// How the looked-up rows become one vector.
        combiner: Combiner,
        /// Longer rows are shortened to this length before they are combined.
        max_norm: Option<f32>,
    },
}

impl Transform {
    /// The columns in the order of their names.
    #[must_use]
    pub fn columns(&self) -> &[PlannedColumn] {
        &self.columns
    }

    /// The tables that embedding columns look up in, each once.
    #[must_use]
    pub fn tables(&self) -> &[TableSpec] {
        &self.tables
    }

    /// How many numbers a row of [`Features::dense`] has.
    #[must_use]
    pub fn dense_width(&self) -> usize {
        self.dense_width
    }

    /// How wide TensorFlow's input layer of these columns is: dense columns and embeddings side by side.
    #[must_use]
    pub fn input_width(&self) -> usize {
        self.input_width
    }

    /// The inputs that a batch must have.
    pub fn inputs(&self) -> impl ExactSizeIterator<Item = &str> {
        self.raws.iter().map(|key| &**key)
    }

    /// The features of a batch.
    ///
    /// # Errors
    /// When an input is missing, has another type or shape, or holds a value that its column does not take.
    pub fn apply(&self, batch: &Batch) -> Result<Features> {
        let raws: Vec<Raw<'_>> =
            self.raws.iter().map(|key| Ok(Raw::new(key, batch.column(key)?))).collect::<Result<_>>()?;
        let mut done: Vec<IdRows> = Vec::with_capacity(self.steps.len());
        for (step, name) in self.steps.iter().zip(&self.names) {
            let ids = step.run(&raws, &done, batch.rows(), self.is_sequence);
            done.push(ids.map_err(|error| place(error, name))?);
        }
        if self.is_sequence { self.sequence(&raws, &done, batch.rows()) } else { self.flat(&raws, &done, batch.rows()) }
    }

    fn flat(&self, raws: &[Raw<'_>], done: &[IdRows], rows: usize) -> Result<Features> {
        let mut dense = Matrix { values: matrix(rows, self.dense_width)?, width: self.dense_width };
        let mut sparse = Vec::new();
        for (output, column) in self.outputs.iter().zip(&self.columns) {
            let put = match output {
                Output::Numeric { raw, numeric, start } => dense.put_numeric(&raws[*raw], numeric, *start),
                Output::Scatter { step, start, width } => {
                    dense.scatter(&done[*step], rows, *start, *width);
                    Ok(())
                }
                Output::Sparse { step, buckets, combiner } => {
                    prune(&done[*step], rows, *buckets, *combiner).map(|ids| sparse.push(ids))
                }
            };
            put.map_err(|error| place(error, &column.name))?;
        }
        Ok(Features { rows, steps: 1, lengths: Vec::new(), dense: dense.values, sparse })
    }
}

impl std::fmt::Debug for Transform {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.columns.iter().map(|column| &column.name)).finish()
    }
}

/// Says which column an error is about, where nothing more precise was said.
fn place(error: Error, column: &str) -> Error {
    if error.place().is_some() { error } else { error.at(format!("feature column {column:?}")) }
}
