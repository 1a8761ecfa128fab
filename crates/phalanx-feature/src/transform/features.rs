//! The output of a transform: dense numbers, and ids for tables.

/// The features of a batch, in the layout that [`Transform::columns`](super::Transform::columns) describes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Features {
    /// The number of rows of the batch.
    pub rows: usize,
    /// The number of steps per row, including padding; 1 without a time axis.
    pub steps: usize,
    /// The number of steps of each row without padding; empty without a time axis.
    pub lengths: Vec<usize>,
    /// `rows × steps × dense_width` numbers in row-major order.
    pub dense: Vec<f32>,
    /// The ids of each column with ids, by the index of its slot.
    pub sparse: Vec<SparseIds>,
}

/// Ids by row (or by step of a sequence), all within the range of their table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SparseIds {
    /// The ids of all rows, concatenated.
    pub ids: Vec<i64>,
    /// Row `i` has the ids from `splits[i]` to `splits[i + 1]`.
    pub splits: Vec<usize>,
    /// The weight of every id; `None` if all weights are 1.
    pub weights: Option<Vec<f32>>,
}

impl SparseIds {
    /// Returns the ids of one row. Panics if there is no such row.
    #[must_use]
    pub fn row(&self, row: usize) -> &[i64] {
        &self.ids[self.splits[row]..self.splits[row + 1]]
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.splits.len().saturating_sub(1)
    }
}
