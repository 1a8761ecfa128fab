//! `HashedCrossing`, `CategoryCrossing`: columns combined value by value.

use super::setting;
use crate::encode::{OutputMode, encode};
use crate::layout::Rows;
use crate::text::decimal;
use crate::transform::cross_columns;
use phalanx_base::{Code, Error, Result};
use phalanx_data::{Batch, Column, Strings, ValuesView};

/// Keras' `HashedCrossing`: the values of several columns as one hashed bin per row.
///
/// ```
/// use phalanx_data::{Batch, Column};
/// use phalanx_feature::HashedCrossing;
/// let batch = Batch::new([("city", Column::text(["A", "B", "A"])), ("day", Column::i64(vec![101, 101, 102]))])?;
/// let crossed = HashedCrossing::new(5).apply(&batch, &["city", "day"], "city_day")?;
/// assert_eq!(crossed.i64("city_day")?, [1, 4, 3]);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct HashedCrossing {
    num_bins: usize,
    output_mode: OutputMode,
}

impl HashedCrossing {
    const LAYER: &'static str = "HashedCrossing";

    /// Returns a layer with `num_bins` bins.
    #[must_use]
    pub fn new(num_bins: usize) -> Self {
        Self { num_bins, output_mode: OutputMode::Int }
    }

    setters! {
        /// Sets the output: bins or one-hot rows.
        output_mode: OutputMode => output_mode;
    }

    /// Returns the bin of each row of the columns, which have one text or integer per row.
    ///
    /// # Errors
    /// If there are fewer than two columns, or they are ragged, wide, of unequal length, or floats.
    pub fn call(&self, columns: &[&Column]) -> Result<Column> {
        if self.num_bins == 0 || self.num_bins > i64::MAX as usize {
            return Err(setting(Self::LAYER, format!("it has {} bins, at least 1 is needed", self.num_bins)));
        }
        if !matches!(self.output_mode, OutputMode::Int | OutputMode::OneHot) {
            return Err(setting(Self::LAYER, "its output is bins or one-hot rows"));
        }
        let first = first_of(columns, Self::LAYER)?;
        if columns.iter().any(|column| !Rows::of(column).is_single()) {
            return Err(Error::new(Code::ShapeMismatch, "a HashedCrossing takes columns of one value per row")
                .help("cross ragged columns with crossed_column"));
        }
        encode(cross_columns(columns, self.num_bins)?, first, self.output_mode, self.num_bins)
    }

    /// Returns the batch with an additional column, the cross of some of its columns.
    ///
    /// # Errors
    /// If a column does not exist, or as [`HashedCrossing::call`].
    pub fn apply(&self, batch: &Batch, columns: &[&str], name: &str) -> Result<Batch> {
        let columns: Vec<&Column> = columns.iter().map(|column| batch.column(column)).collect::<Result<_>>()?;
        batch.with_column(name, self.call(&columns)?)
    }
}

/// Keras' former `CategoryCrossing`: every combination of the values of several columns, joined as texts.
///
/// ```
/// use phalanx_data::Column;
/// use phalanx_feature::CategoryCrossing;
/// let cities = Column::text(["a", "b"]);
/// let days = Column::i64(vec![1, 2]);
/// let crossed = CategoryCrossing::new().call(&[&cities, &days])?;
/// assert_eq!(crossed.as_bytes()?.get(1), b"b_X_2");
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CategoryCrossing {
    separator: Vec<u8>,
}

impl Default for CategoryCrossing {
    fn default() -> Self {
        Self { separator: b"_X_".to_vec() }
    }
}

/// The maximum number of combinations in one column.
const MOST: usize = 1 << 26;

impl CategoryCrossing {
    /// Returns a layer with the separator `_X_`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the separator between the values.
    #[must_use]
    pub fn separator(self, separator: impl Into<Vec<u8>>) -> Self {
        Self { separator: separator.into() }
    }

    /// Returns all combinations of each row; the last column varies fastest. The output is ragged unless every column has
    /// one value per row.
    ///
    /// # Errors
    /// If there are fewer than two columns, they are of unequal length, or floats.
    pub fn call(&self, columns: &[&Column]) -> Result<Column> {
        let first = first_of(columns, "CategoryCrossing")?;
        let rows: Vec<Rows<'_>> = columns.iter().map(|column| Rows::of(column)).collect();
        if let Some(floats) = columns.iter().find(|column| matches!(column.values(), ValuesView::F32(_))) {
            return Err(Error::new(Code::DataColumn, format!("a cross takes no {} values", floats.dtype())));
        }
        let (mut out, mut splits, mut indices) = (Strings::new(), vec![0], Vec::new());
        for row in 0..first.rows() {
            let lengths = rows.iter().map(|rows| rows.range(row).len());
            let count = lengths.clone().try_fold(1_usize, |count, length| count.checked_mul(length));
            let Some(count) = count.filter(|count| out.len() + count <= MOST) else {
                return Err(Error::new(Code::DataRow, format!("a cross has more than {MOST} combinations"))
                    .at(format!("row {row}")));
            };
            indices.clear();
            indices.extend(rows.iter().map(|rows| rows.range(row).start));
            for _ in 0..count {
                for (part, (&index, column)) in indices.iter().zip(columns).enumerate() {
                    if part > 0 {
                        out.extend_open(&self.separator);
                    }
                    put(&mut out, column.values(), index);
                }
                out.end();
                advance(&mut indices, &rows, row);
            }
            splits.push(out.len());
        }
        let column = Column::bytes(out);
        if rows.iter().all(Rows::is_single) { Ok(column) } else { column.with_splits(splits) }
    }
}

/// Advances to the next combination of a row; the last index varies fastest.
fn advance(indices: &mut [usize], rows: &[Rows<'_>], row: usize) {
    for (index, rows) in indices.iter_mut().zip(rows).rev() {
        let range = rows.range(row);
        *index += 1;
        if *index < range.end {
            return;
        }
        *index = range.start;
    }
}

fn put(out: &mut Strings, values: ValuesView<'_>, index: usize) {
    match values {
        ValuesView::Bytes(texts) => out.extend_open(texts.get(index)),
        ValuesView::I64(numbers) => decimal(numbers[index], |text| out.extend_open(text)),
        ValuesView::U8(numbers) => decimal(numbers[index].into(), |text| out.extend_open(text)),
        // `call` rejects floats.
        ValuesView::F32(_) => {}
    }
}

/// Checks that there are at least two columns of equal length, and returns the first.
fn first_of<'a>(columns: &[&'a Column], layer: &str) -> Result<&'a Column> {
    let [first, rest @ ..] = columns else { return Err(setting(layer, "it was given no columns")) };
    if rest.is_empty() {
        return Err(setting(layer, "a cross needs two columns or more"));
    }
    match rest.iter().find(|column| column.rows() != first.rows()) {
        None => Ok(first),
        Some(odd) => {
            let what = format!("a cross of columns of {} and {} rows", first.rows(), odd.rows());
            Err(Error::new(Code::ShapeMismatch, what).help("cross columns of one batch"))
        }
    }
}
