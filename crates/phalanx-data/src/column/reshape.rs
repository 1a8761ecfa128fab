//! Other views of the same values: a dimension more, a dimension less.

use super::Column;
use crate::Values;

impl Column {
    /// All rows of a dense column as one row of the given shape, which has as many values.
    pub(crate) fn dense_row(column: &Self, shape: Vec<usize>) -> Self {
        let range = column.value_range();
        // A row must start at a multiple of its width: a slice that does not is copied.
        let aligned = range.is_empty() || range.start.is_multiple_of(range.len());
        if aligned {
            let start = range.start.checked_div(range.len()).unwrap_or(0);
            return Self { row_shape: Some(shape.into()), start, rows: 1, ..column.clone() };
        }
        let mut values = Values::with_capacity(column.dtype(), range.len());
        let same = values.extend_from(column.buffer(), range);
        debug_assert!(same, "made with the same type");
        Self::from_raw(values, None, Some(shape.into()), 1)
    }

    /// The items of ragged rows, one row each; a dense column stays as it is.
    pub(crate) fn items_as_rows(&self) -> Self {
        let Some(splits) = self.splits() else { return self.clone() };
        let (start, rows) = (splits[0], splits[self.rows] - splits[0]);
        Self { splits: None, start, rows, ..self.clone() }
    }

    /// Every dense row as several: its first dimension becomes rows. `None` for scalars.
    pub(crate) fn first_dimension_as_rows(&self) -> Option<Self> {
        let (&first, rest) = self.row_shape().split_first()?;
        let row_shape = (!rest.is_empty()).then(|| rest.into());
        Some(Self { row_shape, start: self.start * first, rows: self.rows * first, ..self.clone() })
    }
}
