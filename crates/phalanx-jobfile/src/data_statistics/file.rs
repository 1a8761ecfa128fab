//! The statistics of files that no job describes.

use super::column::MISSING_INTEGER;
use super::{ColumnReport, ColumnRole, DataStatistics};
use phalanx_base::{Code, Error, Result};
use phalanx_data::{DType, Dataset, FeatureSpec, Files, NonFiniteValues, Parquet, SourceExt, csv, parquet, tfrecord};

/// The format of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// CSV with a heading.
    Csv,
    /// Parquet.
    Parquet,
    /// TFRecords of Examples.
    TfRecord,
}

impl FileFormat {
    /// Returns the format that a name or a pattern suggests.
    #[must_use]
    pub fn of_file(path: &str) -> Option<Self> {
        let path = path.strip_suffix(".gz").unwrap_or(path);
        let ends = |all: &[&str]| all.iter().any(|end| path.ends_with(end));
        match () {
            () if ends(&[".csv", ".tsv", ".txt", ".data"]) => Some(Self::Csv),
            () if ends(&[".parquet"]) => Some(Self::Parquet),
            () if ends(&[".tfrecord", ".tfrecords"]) || path.contains(".tfrecord-") => Some(Self::TfRecord),
            () => None,
        }
    }
}

/// Which files are counted, and how they are read.
#[derive(Clone, Debug)]
pub struct FileStatistics {
    /// A file or a pattern.
    pub files: String,
    /// Their format.
    pub format: FileFormat,
    /// The delimiter of CSV files.
    pub delimiter: u8,
    /// The name of the label.
    pub label: Option<String>,
    /// The largest number of rows.
    pub most: Option<u64>,
}

impl FileStatistics {
    /// Reads the files and returns the statistics of all their columns.
    ///
    /// # Errors
    /// If the files cannot be read, or have no such label.
    pub fn read(&self) -> Result<DataStatistics> {
        let files = Files::from(self.files.as_str()).list()?;
        let (data, names) = self.open(files)?;
        if let Some(label) = self.label.as_ref().filter(|label| !names.contains(label)) {
            return Err(Error::new(Code::DataColumn, format!("the data has no column {label:?}"))
                .at(&self.files)
                .help(format!("name one of {}", names.join(", "))));
        }
        let role = |name: &String| match &self.label {
            Some(label) if label == name => ColumnRole::Label,
            _ => ColumnRole::Input,
        };
        let columns = names.iter().map(|name| ColumnReport::new(name, role(name))).collect();
        DataStatistics::read(&data, columns, self.most, &|| false)
    }

    fn open(&self, files: Vec<String>) -> Result<(Dataset, Vec<String>)> {
        Ok(match self.format {
            FileFormat::Csv => {
                let read = csv(files).delimiter(self.delimiter);
                let names: Vec<String> = read.columns()?.into_iter().map(|(name, _)| name).collect();
                let texts = names.iter().fold(read, |read, name| read.column(name, DType::Bytes));
                (texts.dataset(), names)
            }
            FileFormat::Parquet => {
                let read = with_nulls(parquet(files))?;
                let names = read.columns()?.into_iter().map(|(name, _)| name).collect();
                (read.dataset(), names)
            }
            FileFormat::TfRecord => {
                let kinds = tfrecord(files.clone()).feature_kinds()?;
                let specs = kinds.iter().map(|(name, kind)| FeatureSpec::variable(name.clone(), *kind));
                let read = tfrecord(files).parse(specs.collect::<Vec<_>>());
                let data = read.non_finite(NonFiniteValues::keep()).dataset();
                (data, kinds.into_iter().map(|(name, _)| name).collect())
            }
        })
    }
}

/// Reads Parquet files as they are: NaN stays, and missing values are those that [`ColumnReport`] counts as missing.
pub(super) fn with_nulls(read: Parquet) -> Result<Parquet> {
    let mut kept = read.clone().non_finite(NonFiniteValues::keep());
    for (name, dtype) in read.columns()? {
        if read.is_list(&name)? {
            continue;
        }
        kept = match dtype {
            DType::F32 => kept.default_value(name, f32::NAN),
            DType::I64 => kept.default_value(name, MISSING_INTEGER),
            DType::U8 | DType::Bytes => kept,
        };
    }
    Ok(kept)
}
