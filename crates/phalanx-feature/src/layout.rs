//! The layout of columns: which values belong to which row.

use phalanx_base::{Code, Error, Result};
use phalanx_data::{Column, Values};
use std::ops::Range;

/// The range of each row in [`Column::values`].
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    splits: Option<&'a [usize]>,
    width: usize,
    rows: usize,
}

impl<'a> Rows<'a> {
    pub(crate) fn of(column: &'a Column) -> Self {
        Self { splits: column.splits(), width: column.width(), rows: column.rows() }
    }

    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// Whether every row has exactly one value.
    pub(crate) fn is_single(&self) -> bool {
        self.splits.is_none() && self.width == 1
    }

    pub(crate) fn is_ragged(&self) -> bool {
        self.splits.is_some()
    }

    #[inline]
    pub(crate) fn range(&self, row: usize) -> Range<usize> {
        match self.splits {
            None => row * self.width..(row + 1) * self.width,
            // The splits of a slice do not start at 0.
            Some(splits) => (splits[row] - splits[0]) * self.width..(splits[row + 1] - splits[0]) * self.width,
        }
    }
}

/// Arranges values, one for each of `like`, in the same rows and shapes.
pub(crate) fn in_layout_of(like: &Column, values: Values) -> Result<Column> {
    in_shape(like, values, like.row_shape().to_vec())
}

/// Arranges values in the rows of `like`, with another shape per row (or per item of a ragged row).
pub(crate) fn in_shape(like: &Column, values: Values, shape: Vec<usize>) -> Result<Column> {
    let column = Column::new(values);
    let column = if shape.is_empty() { column } else { column.with_row_shape(shape)? };
    match like.splits() {
        None => Ok(column),
        Some(splits) => column.with_splits(splits.iter().map(|split| split - splits[0]).collect()),
    }
}

/// Allocates `rows × width` zeros, or fails if that exceeds the memory.
pub(crate) fn matrix(rows: usize, width: usize) -> Result<Vec<f32>> {
    let too_large = || {
        Error::new(Code::BadSetting, format!("{rows} rows of {width} values do not fit into memory"))
            .help("use an embedding instead of a one-hot column, or smaller batches")
    };
    let length = rows.checked_mul(width).ok_or_else(too_large)?;
    let mut values = Vec::new();
    values.try_reserve_exact(length).map_err(|_| too_large())?;
    values.resize(length, 0.0);
    Ok(values)
}
