//! CSV files: names and types are given, or taken from the header and the first rows; rows are parsed straight into
//! columns.
//!
//! The rules are those of TensorFlow's `make_csv_dataset`, tested against its output, with these differences: blank lines
//! are skipped if rows have several fields, every row has as many fields as there are names (TensorFlow ignores what
//! follows the last selected column), a missing label and a number that is not finite are errors unless the caller says
//! otherwise, a leading `+` is part of a number, a float field of spaces is an error and not 0.0, denormal numbers are
//! kept, and nothing is shuffled or repeated by default.

mod builder;
mod infer;
mod marks;
mod number;
mod options;
mod plan;
mod reader;
mod row;
mod scan;
mod source;
mod text;

#[cfg(test)]
mod tests;

use crate::Files;
use options::CsvOptions;
pub use source::Csv;

/// Reads CSV files: a path, a pattern or a list of them; plain or gzip.
///
/// The defaults are those of TensorFlow's `make_csv_dataset`: a header, a comma, quotes, types from the first 100 rows,
/// missing values 0 or empty. A missing label is an error, and so is a number that is not finite.
///
/// ```
/// use phalanx_data::{DType, PartPosition, Source, csv};
/// let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("people.csv");
/// std::fs::write(&path, "age,job,income\n39,clerk,<=50K\n50,,>50K\n").unwrap();
///
/// let people = csv(&path).default_value("job", "unknown").label("income");
/// assert_eq!(people.columns()?[0], ("age".to_string(), DType::I64));
/// let batch = people.open(0, PartPosition::START)?.read(1000)?.unwrap();
/// assert_eq!(batch.i64("age")?, [39, 50]);
/// assert_eq!(batch.bytes("job")?.get(1), b"unknown");
/// assert_eq!(batch.label().unwrap().rows(), 2);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
pub fn csv(files: impl Into<Files>) -> Csv {
    Csv::new(files.into(), CsvOptions::default())
}
