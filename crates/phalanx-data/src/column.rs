//! One column of a batch: flat values, the shape of a row, and where ragged rows begin.

mod reshape;

use crate::{DType, Strings, StringsView, Values, ValuesView};
use phalanx_base::{Code, Error, Result};
use std::ops::Range;
use std::sync::Arc;

/// The values of one feature for a number of rows.
///
/// A dense column has `rows × product(row_shape)` values. A ragged one (an id list per row) has, for row `i`, the
/// values from `splits[i]` to `splits[i + 1]`, each of the inner shape `row_shape`. Cloning and slicing a column
/// share the values: neither copies them.
///
/// ```
/// use phalanx_data::{Column, Strings};
/// let age = Column::f32(vec![39.0, 50.0, 38.0]);
/// let pixels = Column::u8(vec![0; 3 * 4]).with_row_shape([2, 2]).unwrap();
/// let tags = Column::i64(vec![7, 8, 9]).with_splits(vec![0, 2, 2, 3]).unwrap();
/// assert_eq!((age.rows(), pixels.rows(), tags.rows()), (3, 3, 3));
/// assert_eq!(tags.slice(1..3).as_i64().unwrap(), [9]);
/// ```
#[derive(Clone, Debug)]
pub struct Column {
    values: Arc<Values>,
    /// Absolute places in `values`; one more than the rows of the column this one was sliced from.
    splits: Option<Arc<Vec<usize>>>,
    /// `None` is a scalar per row (dense) or per item (ragged).
    row_shape: Option<Arc<[usize]>>,
    start: usize,
    rows: usize,
}

/// Defines methods that return the values of a column as one type.
macro_rules! typed_views {
    ($($name:ident -> $view:ty = $dtype:ident, $what:literal;)*) => {$(
        #[doc = concat!("Returns the values as ", $what, ", flat, without a copy.")]
        ///
        /// # Errors
        /// When they are of another type.
        pub fn $name(&self) -> Result<$view> {
            match self.values() {
                ValuesView::$dtype(values) => Ok(values),
                _ => Err(self.type_error(DType::$dtype)),
            }
        }
    )*};
}

impl Column {
    /// A dense column of one value per row.
    #[must_use]
    pub fn new(values: Values) -> Self {
        let rows = values.len();
        Self { values: Arc::new(values), splits: None, row_shape: None, start: 0, rows }
    }

    /// A dense column of one float per row.
    #[must_use]
    pub fn f32(values: Vec<f32>) -> Self {
        Self::new(Values::F32(values))
    }

    /// A dense column of one integer per row.
    #[must_use]
    pub fn i64(values: Vec<i64>) -> Self {
        Self::new(Values::I64(values))
    }

    /// A dense column of one small number per row.
    #[must_use]
    pub fn u8(values: Vec<u8>) -> Self {
        Self::new(Values::U8(values))
    }

    /// A dense column of one byte string per row.
    #[must_use]
    pub fn bytes(values: Strings) -> Self {
        Self::new(Values::Bytes(values))
    }

    /// A dense column of one text per row.
    #[must_use]
    pub fn text<S: AsRef<str>>(values: impl IntoIterator<Item = S>) -> Self {
        let mut strings = Strings::new();
        for value in values {
            strings.push(value.as_ref().as_bytes());
        }
        Self::bytes(strings)
    }

    /// Gives every row (of a dense column) or every item (of a ragged one) a shape; the values stay where they are.
    ///
    /// # Errors
    /// When the values do not divide into rows of that shape.
    pub fn with_row_shape(mut self, shape: impl Into<Vec<usize>>) -> Result<Self> {
        let shape = phalanx_base::Shape::new(shape)?;
        let values = self.value_range();
        let width = shape.elements();
        if let Some(splits) = &self.splits {
            let old = self.width();
            if width != old {
                return Err(shape_error(format!("items of {old} values do not take the shape {shape}")));
            }
            debug_assert!(splits.len() > self.start + self.rows);
        } else {
            if width == 0 && !values.is_empty() || width > 0 && !values.len().is_multiple_of(width) {
                let what = format!("{} values do not divide into rows of shape {shape}", values.len());
                return Err(shape_error(what));
            }
            // With empty rows the number of rows cannot be read off the values: it stays.
            if let Some(rows) = values.len().checked_div(width) {
                self.start = values.start.checked_div(width).unwrap_or(0);
                self.rows = rows;
                if self.start * width != values.start {
                    return Err(shape_error(format!("a slice of a column does not start at a row of shape {shape}")));
                }
            }
        }
        self.row_shape = (!shape.dims().is_empty()).then(|| shape.dims().into());
        Ok(self)
    }

    /// Makes a dense column of scalars (or of rows of the present shape) ragged: row `i` becomes the items from
    /// `splits[i]` to `splits[i + 1]`.
    ///
    /// # Errors
    /// When the splits do not start at 0, fall, or do not end at the number of items.
    pub fn with_splits(mut self, splits: Vec<usize>) -> Result<Self> {
        let fits = splits.first() == Some(&0) && splits.last() == Some(&self.rows) && splits.is_sorted();
        if self.splits.is_some() || self.start != 0 || !fits {
            return Err(shape_error(format!("row splits do not divide {} items", self.rows))
                .because("splits start at 0, never fall, and end at the number of items of a column not yet ragged"));
        }
        self.rows = splits.len() - 1;
        self.splits = Some(Arc::new(splits));
        Ok(self)
    }

    /// How many rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The type of the values.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.values.dtype()
    }

    /// The shape of a row, or of an item of a ragged row; empty for scalars.
    #[must_use]
    pub fn row_shape(&self) -> &[usize] {
        self.row_shape.as_deref().unwrap_or(&[])
    }

    /// How many values a dense row, or an item of a ragged row, has.
    #[must_use]
    pub fn width(&self) -> usize {
        self.row_shape().iter().product()
    }

    /// Whether rows are lists of differing length.
    #[must_use]
    pub fn is_ragged(&self) -> bool {
        self.splits.is_some()
    }

    /// Where each ragged row begins, and where the last ends, counted in items; `None` for a dense column.
    ///
    /// In a slice the first is not 0: take it away from the others to index what [`Column::as_i64`] and its
    /// fellows return.
    #[must_use]
    pub fn splits(&self) -> Option<&[usize]> {
        self.splits.as_deref().map(|splits| &splits[self.start..=self.start + self.rows])
    }

    /// Where the values of `rows` (counted in this column) lie in the shared buffer.
    pub(crate) fn range_of(&self, rows: Range<usize>) -> Range<usize> {
        let (from, to) = (self.start + rows.start, self.start + rows.end);
        let width = self.width();
        match &self.splits {
            Some(splits) => splits[from] * width..splits[to] * width,
            None => from * width..to * width,
        }
    }

    pub(crate) fn value_range(&self) -> Range<usize> {
        self.range_of(0..self.rows)
    }

    pub(crate) fn buffer(&self) -> &Values {
        &self.values
    }

    pub(crate) fn shape_arc(&self) -> Option<Arc<[usize]>> {
        self.row_shape.clone()
    }

    pub(crate) fn from_raw(
        values: Values,
        splits: Option<Vec<usize>>,
        row_shape: Option<Arc<[usize]>>,
        rows: usize,
    ) -> Self {
        Self { values: Arc::new(values), splits: splits.map(Arc::new), row_shape, start: 0, rows }
    }

    /// Returns a view of some rows, which shares the values. Panics if it is out of range.
    #[must_use]
    pub fn slice(&self, rows: Range<usize>) -> Self {
        assert!(rows.start <= rows.end && rows.end <= self.rows, "rows {rows:?} of {}", self.rows);
        Self { start: self.start + rows.start, rows: rows.len(), ..self.clone() }
    }

    /// No rows of the same type and shape.
    pub(crate) fn empty_like(&self) -> Self {
        let splits = self.is_ragged().then(|| vec![0]);
        Self::from_raw(Values::with_capacity(self.dtype(), 0), splits, self.shape_arc(), 0)
    }

    /// The values, flat.
    #[must_use]
    pub fn values(&self) -> ValuesView<'_> {
        self.values.view(self.value_range())
    }

    /// The number of values of all rows.
    pub(crate) fn values_len(&self) -> usize {
        self.value_range().len()
    }

    /// The values of one row, flat.
    #[must_use]
    pub fn row(&self, row: usize) -> ValuesView<'_> {
        self.values.view(self.range_of(row..row + 1))
    }

    typed_views! {
        as_f32 -> &[f32] = F32, "floats";
        as_i64 -> &[i64] = I64, "integers";
        as_u8 -> &[u8] = U8, "bytes";
        as_bytes -> StringsView<'_> = Bytes, "byte strings";
    }

    fn type_error(&self, wanted: DType) -> Error {
        Error::new(Code::DataColumn, format!("a column holds {}, not {wanted}", self.dtype()))
            .help("give the column's type where the input is read, or convert it with map")
    }
}

impl PartialEq for Column {
    /// Equal rows, whatever buffers they lie in.
    fn eq(&self, other: &Self) -> bool {
        let lengths = |column: &Self| column.splits().map(|s| s.windows(2).map(|w| w[1] - w[0]).collect::<Vec<_>>());
        self.rows == other.rows
            && self.row_shape() == other.row_shape()
            && lengths(self) == lengths(other)
            && self.values() == other.values()
    }
}

fn shape_error(what: String) -> Error {
    Error::new(Code::ShapeMismatch, what)
}
