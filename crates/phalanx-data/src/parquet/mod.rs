//! Parquet files: columns by name, decoded a few thousand rows at a time; and a writer.
//!
//! | in the file | here |
//! | --- | --- |
//! | float, double | float32 (doubles are rounded) |
//! | all integers, booleans, dates, times, timestamps | int64 (unsigned ones beyond its range are an error) |
//! | strings, byte arrays | string |
//! | lists of these | ragged columns |
//!
//! A missing float is NaN, another missing number 0, a missing string or list is empty; [`Parquet::required`] makes a
//! missing value an error.

mod chunks;
mod convert;
mod plan;
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
