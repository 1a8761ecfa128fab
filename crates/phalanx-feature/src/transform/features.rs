//! What a transform yields: numbers for a matrix, ids for tables.

/// The features of a batch, in the layout that [`Transform::columns`](super::Transform::columns) describes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Features {
    /// How many rows the batch has.
    pub rows: usize,
    /// How many steps every row has in a sequence, the padding included; 1 where there is no time axis.
    pub steps: usize,
    /// How many steps of each row are not padding; empty where there is no time axis.
    pub lengths: Vec<usize>,
    /// `rows × steps × dense_width` numbers, row after row.
    pub dense: Vec<f32>,
    /// The ids of each column that has ids, by the index of its slot.
    pub sparse: Vec<SparseIds>,
}

/// Ids by row (in sequences: by step), none below 0 and none beyond the table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SparseIds {
    /// The ids of all rows, end to end.
    pub ids: Vec<i64>,
    /// Row `i` has the ids from `splits[i]` to `splits[i + 1]`.
    pub splits: Vec<usize>,
    /// A weight for every id; `None` where each counts 1.
    pub weights: Option<Vec<f32>>,
}

impl SparseIds {
    /// The ids of one row. Panics when there is no such row, as a slice does.
    #[must_use]
    pub fn row(&self, row: usize) -> &[i64] {
        &self.ids[self.splits[row]..self.splits[row + 1]]
    }

    /// How many rows there are.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.splits.len().saturating_sub(1)
    }
}
