//! Parquet files: columns by name, decoded a few thousand rows at a time; and a writer.
//!
//! | in the file | here |
//! | --- | --- |
//! | float, double | float32 (doubles are rounded) |
//! | all integers, booleans, dates, times, timestamps | int64 (unsigned ones beyond its range are an error) |
//! | strings, byte arrays | string |
//! | lists of these | ragged columns |
//!
//! A null is a missing value: it becomes the column's default ([`Parquet::default_value`]), or else 0 or empty, as in a CSV
//! file. [`Parquet::required`] makes it an error, which it always is in the label. A missing list is empty or has the
//! default as its only item.

mod chunks;
pub(crate) mod convert;
pub(crate) mod plan;
mod reader;
mod source;
mod writer;

#[cfg(test)]
mod tests;

use crate::Files;
pub use source::Parquet;
pub use writer::ParquetWriter;

/// Reads Parquet files: a path, a pattern or a list of them.
///
/// ```no_run
/// use phalanx_data::{PartPosition, Source, parquet};
/// let clicks = parquet("data/day=*/clicks-*.parquet").select(["user", "price"]).label("clicked");
/// let batch = clicks.open(0, PartPosition::START)?.read(1024)?.unwrap();
/// println!("{} rows", batch.rows());
/// # Ok::<(), phalanx_base::Error>(())
/// ```
pub fn parquet(files: impl Into<Files>) -> Parquet {
    Parquet::new(files.into())
}
