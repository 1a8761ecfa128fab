//! One rule for missing values in every format.
//!
//! A missing value becomes the column's default; without one, a number becomes 0 and a string is empty, as in TensorFlow's
//! `make_csv_dataset`. A missing label is an error unless the label has a default, and so is a missing value of a required
//! column. (A missing feature of fixed length in an Example is an error too, as in `tf.io.parse_example`.)

use crate::{Column, DType, Values};
use phalanx_base::{Code, Error, Result};

/// The value that replaces missing ones in a column: a number or a string.
#[derive(Clone, Debug, PartialEq)]
pub struct FillValue(pub(crate) Fill);

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fill {
    F32(f32),
    I64(i64),
    Bytes(Vec<u8>),
}

macro_rules! fill_values {
    ($($type:ty: $value:ident => $fill:expr;)*) => {$(
        impl From<$type> for FillValue {
            fn from($value: $type) -> Self {
                Self($fill)
            }
        }
    )*};
}

fill_values! {
    f32: value => Fill::F32(value);
    f64: value => Fill::F32(value as f32);
    i32: value => Fill::I64(value.into());
    i64: value => Fill::I64(value);
    &str: value => Fill::Bytes(value.into());
    &[u8]: value => Fill::Bytes(value.into());
}

impl Fill {
    pub(crate) fn dtype(&self) -> DType {
        match self {
            Self::F32(_) => DType::F32,
            Self::I64(_) => DType::I64,
            Self::Bytes(_) => DType::Bytes,
        }
    }

    /// 0, or the empty string.
    fn zero(dtype: DType) -> Self {
        match dtype {
            DType::F32 => Self::F32(0.0),
            DType::I64 | DType::U8 => Self::I64(0),
            DType::Bytes => Self::Bytes(Vec::new()),
        }
    }

    /// Converts a default to the type of its column: an integer may stand for a float, and a float without a fraction for an
    /// integer.
    pub(crate) fn of_type(&self, name: &str, dtype: DType) -> Result<Self> {
        match (self, dtype) {
            (Self::I64(value), DType::F32) => Ok(Self::F32(*value as f32)),
            (Self::F32(value), DType::I64) if value.fract() == 0.0 => Ok(Self::I64(*value as i64)),
            _ if self.dtype() == dtype => Ok(self.clone()),
            _ => Err(Error::new(Code::BadSetting, format!("the default of column {name:?} has the wrong type"))
                .because(format!("the column is {dtype}, its default {}", self.dtype()))
                .help("give a default of the column's type, or change the column's type")),
        }
    }
}

/// Makes a ragged column in which every missing row has the default as its only value.
pub(crate) fn fill_rows(
    values: &Values,
    splits: &[usize],
    is_missing: impl Fn(usize) -> bool,
    fill: &Fill,
) -> Result<Column> {
    let rows = splits.len().saturating_sub(1);
    let mut filled = Values::with_capacity(values.dtype(), values.len() + rows);
    let mut ends = Vec::with_capacity(splits.len());
    ends.push(0);
    for row in 0..rows {
        match (&mut filled, fill) {
            (Values::F32(all), Fill::F32(fill)) if is_missing(row) => all.push(*fill),
            (Values::I64(all), Fill::I64(fill)) if is_missing(row) => all.push(*fill),
            (Values::Bytes(all), Fill::Bytes(fill)) if is_missing(row) => all.push(fill),
            (all, _) => {
                let same = all.extend_from(values, splits[row]..splits[row + 1]);
                debug_assert!(same, "both have the column's type");
            }
        }
        ends.push(filled.len());
    }
    Column::new(filled).with_splits(ends)
}

/// What is known about missing values of one column.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MissingRule<'a> {
    pub(crate) default: Option<&'a Fill>,
    pub(crate) required: bool,
    pub(crate) is_label: bool,
}

impl MissingRule<'_> {
    /// Returns what a missing value of the column becomes; `None` if it is an error.
    pub(crate) fn fill(self, name: &str, dtype: DType) -> Result<Option<Fill>> {
        match self.default {
            Some(_) if self.required => {
                Err(Error::new(Code::BadSetting, format!("column {name:?} is required and has a default"))
                    .help("it can be one of the two"))
            }
            Some(default) => default.of_type(name, dtype).map(Some),
            None => Ok((!self.required && !self.is_label).then(|| Fill::zero(dtype))),
        }
    }
}

/// The error for a value that is missing in a column that must not miss one.
pub(crate) fn missing_value(name: &str, is_label: bool) -> Error {
    if is_label {
        Error::new(Code::DataRow, "a label is missing")
            .because(format!("column {name:?} is the label, and a row without a label cannot be learned from"))
            .help("correct or remove the row, give the label a default, or skip bad rows")
    } else {
        Error::new(Code::DataRow, "a required value is missing")
            .because(format!("column {name:?} is required"))
            .help("correct the row, give the column a default instead of requiring it, or skip bad rows")
    }
}
