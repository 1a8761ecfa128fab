//! `Transform`: the plan of a list of columns, applied to batches.

mod build;
mod cross;
mod derived;
mod features;
mod id_rows;
mod output;
mod plan;
mod raw;
mod sequence;
mod step;

pub(crate) use cross::cross_columns;
pub(crate) use derived::{RawInput, each_part, parse_integer};
pub use features::{Features, SparseIds};
pub(crate) use raw::fingerprint_of;
pub(crate) use step::bucket;

use crate::columns::{Combiner, EmbeddingTable};
use crate::layout::matrix;
use id_rows::IdRows;
use output::{Matrix, Output, prune};
use phalanx_base::{Error, Result};
use phalanx_data::{Batch, Column};
use raw::Raw;
use std::ops::Range;
use step::IdStep;

/// A precomputed plan that maps a batch to the features of a list of columns.
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
    raws: Vec<RawInput>,
    steps: Vec<IdStep>,
    /// The column of each step, for messages.
    names: Vec<String>,
    outputs: Vec<Output>,
    columns: Vec<PlannedColumn>,
    tables: Vec<EmbeddingTable>,
    dense_width: usize,
    input_width: usize,
    is_sequence: bool,
}

/// A column and the location of its features.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedColumn {
    /// TensorFlow's name of the column.
    pub name: String,
    /// The name as used in variable names.
    pub scope: String,
    /// The location of its features.
    pub slot: Slot,
    /// Its range in TensorFlow's input layer, which concatenates all dense columns and embeddings in the order of their
    /// names; empty for a column that only a linear model takes.
    pub input: Range<usize>,
}

/// The location of a column's features in [`Features`].
#[derive(Clone, Debug, PartialEq)]
pub enum Slot {
    /// A range of every row of [`Features::dense`].
    Dense {
        /// The start of the range.
        start: usize,
        /// The length of the range.
        width: usize,
    },
    /// Ids for the weights of a linear model.
    Ids {
        /// The index in [`Features::sparse`].
        index: usize,
        /// The number of ids.
        buckets: usize,
        /// How the weights of a row's ids are combined.
        combiner: Combiner,
    },
    /// Ids to look up in an embedding table.
    Table {
        /// The index in [`Features::sparse`].
        index: usize,
        /// The index in [`Transform::tables`].
        table: usize,
        /// How the looked-up rows are combined.
        combiner: Combiner,
        /// The maximum L2 norm: longer rows are scaled down before they are combined.
        max_norm: Option<f32>,
    },
}

impl Transform {
    /// Returns the columns in the order of their names.
    #[must_use]
    pub fn columns(&self) -> &[PlannedColumn] {
        &self.columns
    }

    /// Returns the tables of embedding columns, each once.
    #[must_use]
    pub fn tables(&self) -> &[EmbeddingTable] {
        &self.tables
    }

    /// Returns the width of a row of [`Features::dense`].
    #[must_use]
    pub fn dense_width(&self) -> usize {
        self.dense_width
    }

    /// Returns the width of TensorFlow's input layer, which concatenates dense columns and embeddings.
    #[must_use]
    pub fn input_width(&self) -> usize {
        self.input_width
    }

    /// Returns the inputs that a batch must have.
    pub fn inputs(&self) -> impl Iterator<Item = &str> {
        let is_first = |at: usize| self.raws[..at].iter().all(|known| known.key != self.raws[at].key);
        self.raws.iter().enumerate().filter(move |(at, _)| is_first(*at)).map(|(_, raw)| &*raw.key)
    }

    /// Returns the features of a batch.
    ///
    /// # Errors
    /// If an input is missing, has another type or shape, or holds a value that its column does not accept.
    pub fn apply(&self, batch: &Batch) -> Result<Features> {
        let derived: Vec<Option<Column>> = self.raws.iter().map(|raw| raw.derive(batch)).collect::<Result<_>>()?;
        let mut raws: Vec<Raw<'_>> = Vec::with_capacity(self.raws.len());
        for (raw, derived) in self.raws.iter().zip(&derived) {
            raws.push(Raw::new(&raw.key, derived.as_ref().map_or_else(|| batch.column(&raw.key), Ok)?));
        }
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

/// Adds the column to an error, unless it names a more precise location.
fn place(error: Error, column: &str) -> Error {
    if error.place().is_some() { error } else { error.at(format!("feature column {column:?}")) }
}
