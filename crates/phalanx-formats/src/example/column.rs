//! Columns of a batch: all rows' values of one feature, one after another.

use super::FeatureKind;
use crate::Strings;

/// The values of a column, or a default.
#[derive(Clone, Debug, PartialEq)]
pub enum FeatureValues {
    /// Of a `float_list`.
    F32(Vec<f32>),
    /// Of an `int64_list`.
    I64(Vec<i64>),
    /// Of a `bytes_list`.
    Bytes(Strings),
}

/// One feature's values in all rows of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct ExampleColumn {
    /// The feature's key.
    pub name: String,
    /// All values, row by row.
    pub values: FeatureValues,
    /// FeatureValues per item: the length of a fixed feature, the inner length of a ragged one, 1 for a variable one.
    pub width: usize,
    /// Row `i` has the items `row_splits[i]..row_splits[i + 1]`; `None` where every row has exactly one item.
    pub row_splits: Option<Vec<usize>>,
    /// Where the items are steps of any length: step `j` has the values `step_splits[j]..step_splits[j + 1]`, times
    /// the width. Only in the columns of variable and ragged feature lists.
    pub step_splits: Option<Vec<usize>>,
}

/// The columns of some rows, in the order of their specifications.
#[derive(Clone, Debug, PartialEq)]
pub struct ExampleBatch {
    /// How many rows.
    pub rows: usize,
    /// One per wanted feature.
    pub columns: Vec<ExampleColumn>,
}

impl ExampleBatch {
    /// The column of that name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&ExampleColumn> {
        self.columns.iter().find(|column| column.name == name)
    }
}

impl FeatureValues {
    pub(super) fn new(kind: FeatureKind) -> Self {
        match kind {
            FeatureKind::F32 => Self::F32(Vec::new()),
            FeatureKind::I64 => Self::I64(Vec::new()),
            FeatureKind::Bytes => Self::Bytes(Strings::default()),
        }
    }

    /// Empty, of the same kind, with room for as much again.
    pub(super) fn successor(&self) -> Self {
        match self {
            Self::F32(values) => Self::F32(Vec::with_capacity(values.len())),
            Self::I64(values) => Self::I64(Vec::with_capacity(values.len())),
            Self::Bytes(values) => Self::Bytes(Strings::with_capacity(values.len(), values.data().len())),
        }
    }

    /// The type of the values.
    #[must_use]
    pub fn kind(&self) -> FeatureKind {
        match self {
            Self::F32(_) => FeatureKind::F32,
            Self::I64(_) => FeatureKind::I64,
            Self::Bytes(_) => FeatureKind::Bytes,
        }
    }

    /// How many values.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::I64(values) => values.len(),
            Self::Bytes(values) => values.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values, if they are floats.
    #[must_use]
    pub fn as_f32(&self) -> Option<&[f32]> {
        if let Self::F32(values) = self { Some(values) } else { None }
    }

    /// The values, if they are integers.
    #[must_use]
    pub fn as_i64(&self) -> Option<&[i64]> {
        if let Self::I64(values) = self { Some(values) } else { None }
    }

    /// The values, if they are byte strings.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&Strings> {
        if let Self::Bytes(values) = self { Some(values) } else { None }
    }

    pub(super) fn truncate(&mut self, length: usize) {
        match self {
            Self::F32(values) => values.truncate(length),
            Self::I64(values) => values.truncate(length),
            Self::Bytes(values) => values.truncate(length),
        }
    }

    /// Appends values of the same kind; those of another kind are left out.
    pub(super) fn extend(&mut self, more: &Self) {
        match (self, more) {
            (Self::F32(values), Self::F32(more)) => values.extend_from_slice(more),
            (Self::I64(values), Self::I64(more)) => values.extend_from_slice(more),
            (Self::Bytes(values), Self::Bytes(more)) => values.extend_from(more, 0..more.len()),
            _ => {}
        }
    }
}
