//! TFRecord files: raw records, or Examples parsed into columns.

mod examples;
mod raw;

use crate::Files;
pub use examples::Examples;
pub use raw::Records;

/// Reads TFRecord files, plain, gzip or zlib: every record is a row of the string column `record`.
/// [`Records::parse`] reads them as Examples instead.
///
/// ```
/// use phalanx_data::{FeatureKind, FeatureSpec, PartPosition, Source, tfrecord};
/// use phalanx_formats::{example::ExampleWriter, record::RecordWriter};
/// let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("a.tfrecord");
/// let mut writer = RecordWriter::new(Vec::new());
/// writer.write_record(ExampleWriter::new().f32s("price", &[1.5]).i64s("tags", &[3, 4]).encode().as_slice())?;
/// std::fs::write(&path, writer.finish()?).unwrap();
///
/// let features = [FeatureSpec::fixed("price", FeatureKind::F32, 1), FeatureSpec::variable("tags", FeatureKind::I64)];
/// let cars = tfrecord(&path).parse(features);
/// let batch = cars.open(0, PartPosition::START)?.read(10)?.unwrap();
/// assert_eq!(batch.f32("price")?, [1.5]);
/// assert_eq!(batch.column("tags")?.splits(), Some(&[0, 2][..]));
/// # Ok::<(), phalanx_base::Error>(())
/// ```
pub fn tfrecord(files: impl Into<Files>) -> Records {
    Records::new(files.into())
}

#[cfg(test)]
mod tests;
