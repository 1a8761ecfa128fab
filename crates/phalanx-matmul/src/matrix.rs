//! A borrowed matrix.

/// A borrowed row-major matrix, possibly transposed.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    pub(crate) numbers: &'a [f32],
    rows: usize,
    columns: usize,
    pub(crate) transposed: bool,
}

impl<'a> Matrix<'a> {
    /// Borrows `numbers`, row after row.
    ///
    /// # Panics
    /// When their number is not `rows` times `columns`.
    #[must_use]
    pub fn new(numbers: &'a [f32], rows: usize, columns: usize) -> Self {
        assert_eq!(rows.checked_mul(columns), Some(numbers.len()), "a matrix of {rows} rows and {columns} columns");
        Self { numbers, rows, columns, transposed: false }
    }

    /// Returns the transposed matrix, without moving numbers.
    #[must_use]
    pub fn transposed(self) -> Self {
        Self { rows: self.columns, columns: self.rows, transposed: !self.transposed, ..self }
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of columns.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Returns the distances between adjacent numbers of a row and of a column.
    pub(crate) fn strides(&self) -> (usize, usize) {
        if self.transposed { (self.rows, 1) } else { (1, self.columns) }
    }
}
