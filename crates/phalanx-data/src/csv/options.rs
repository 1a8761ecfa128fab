//! The options of CSV files.

use crate::missing::Fill;
use crate::{BadRows, DType, NonFiniteValues};

/// How CSV files are to be read.
#[derive(Clone, Debug)]
pub(super) struct CsvOptions {
    pub(super) names: Option<Vec<String>>,
    pub(super) header: bool,
    pub(super) delimiter: u8,
    pub(super) quotes: bool,
    pub(super) trim: bool,
    /// The texts that mark a missing value, beside the empty one.
    pub(super) na: Vec<Vec<u8>>,
    pub(super) comment: Option<u8>,
    pub(super) select: Option<Vec<String>>,
    pub(super) columns: Vec<(String, Given)>,
    pub(super) label: Option<String>,
    pub(super) bad_rows: BadRows,
    pub(super) non_finite: NonFiniteValues,
    pub(super) infer_rows: usize,
}

/// One option of a column.
#[derive(Clone, Debug)]
pub(super) enum Given {
    Type(DType),
    Default(Fill),
    Required,
}

impl Given {
    /// Whether it settles the type.
    pub(super) fn is_typed(&self) -> bool {
        !matches!(self, Self::Required)
    }
}

/// The defaults of TensorFlow's `make_csv_dataset`.
impl Default for CsvOptions {
    fn default() -> Self {
        Self {
            names: None,
            header: true,
            delimiter: b',',
            quotes: true,
            trim: false,
            na: Vec::new(),
            comment: None,
            select: None,
            columns: Vec::new(),
            label: None,
            bad_rows: BadRows::stop(),
            non_finite: NonFiniteValues::fail(),
            infer_rows: 100,
        }
    }
}

impl CsvOptions {
    /// Returns every column that an option names.
    pub(super) fn named(&self) -> impl Iterator<Item = &String> {
        self.columns.iter().map(|(name, _)| name).chain(&self.label)
    }

    /// Returns the columns whose default is NaN: there, NaN marks a missing value.
    pub(super) fn nan_is_missing(&self) -> Vec<String> {
        let is_nan = |given: &Given| matches!(given, Given::Default(Fill::F32(value)) if value.is_nan());
        self.columns.iter().filter(|(_, given)| is_nan(given)).map(|(name, _)| name.clone()).collect()
    }

    /// Returns whether a field marks a missing value.
    #[inline]
    pub(super) fn is_missing(na: &[Vec<u8>], field: &[u8]) -> bool {
        field.is_empty() || na.iter().any(|text| text == field)
    }
}
