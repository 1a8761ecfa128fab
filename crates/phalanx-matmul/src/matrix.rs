//! A matrix that lies somewhere.

/// Numbers in rows, perhaps read by columns.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    pub(crate) numbers: &'a [f32],
    rows: usize,
    columns: usize,
    pub(crate) transposed: bool,
}

impl<'a> Matrix<'a> {
    /// `numbers`, one row after the other.
    ///
    /// # Panics
    /// When there are not as many as that.
    #[must_use]
    pub fn new(numbers: &'a [f32], rows: usize, columns: usize) -> Self {
        assert_eq!(rows.checked_mul(columns), Some(numbers.len()), "a matrix of {rows} rows and {columns} columns");
        Self { numbers, rows, columns, transposed: false }
    }

    /// The same with rows for columns.
    #[must_use]
    pub fn transposed(self) -> Self {
        Self { rows: self.columns, columns: self.rows, transposed: !self.transposed, ..self }
    }

    /// How many rows it has.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many columns it has.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// How far two neighbours in a row, and two in a column, are apart.
    pub(crate) fn strides(&self) -> (usize, usize) {
        if self.transposed { (self.rows, 1) } else { (1, self.columns) }
    }
}
