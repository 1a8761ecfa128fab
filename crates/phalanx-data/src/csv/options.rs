//! The options of CSV files.

use super::plan::Default;
use crate::{BadRows, DType};

/// How CSV files are to be read.
#[derive(Clone, Debug)]
pub(super) struct CsvOptions {
    pub(super) names: Option<Vec<String>>,
    pub(super) header: bool,
    pub(super) delimiter: u8,
    pub(super) quotes: bool,
    pub(super) trim: bool,
    pub(super) na: Vec<u8>,
    pub(super) comment: Option<u8>,
    pub(super) select: Option<Vec<String>>,
    pub(super) columns: Vec<(String, Given)>,
    pub(super) label: Option<String>,
    pub(super) bad_rows: BadRows,
    pub(super) infer_rows: usize,
}

/// One option of a column.
#[derive(Clone, Debug)]
pub(super) enum Given {
    Type(DType),
    Default(Default),
    Required,
}

impl Given {
    /// Whether it settles the type.
    pub(super) fn is_typed(&self) -> bool {
        !matches!(self, Self::Required)
    }
}

/// The defaults of TensorFlow's `make_csv_dataset`.
impl std::default::Default for CsvOptions {
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
            infer_rows: 100,
        }
    }
}

impl CsvOptions {
    /// Returns every column that an option names.
    pub(super) fn named(&self) -> impl Iterator<Item = &String> {
        self.columns.iter().map(|(name, _)| name).chain(&self.label)
    }
}

/// A default for missing values: a number or a string.
#[derive(Clone, Debug)]
pub struct CsvDefault(pub(super) Default);

macro_rules! csv_defaults {
    ($($type:ty: $value:ident => $default:expr;)*) => {$(
        impl From<$type> for CsvDefault {
            fn from($value: $type) -> Self {
                Self($default)
            }
        }
    )*};
}

csv_defaults! {
    f32: value => Default::F32(Some(value));
    f64: value => Default::F32(Some(value as f32));
    i32: value => Default::I64(Some(value.into()));
    i64: value => Default::I64(Some(value));
    &str: value => Default::Bytes(Some(value.into()));
    &[u8]: value => Default::Bytes(Some(value.into()));
}
