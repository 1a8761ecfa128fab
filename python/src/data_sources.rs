//! Readers of files, with their settings.

use phalanx::data::{
    self, BadRows, Csv, DType, Dataset, FeatureKind, FeatureSpec, FillValue, NonFiniteValues, SourceExt,
};
use phalanx_base::{Code, Error, Result, nearest};
use pyo3::prelude::*;

/// A default of a column.
#[derive(FromPyObject)]
enum Fill {
    Integer(i64),
    Number(f64),
    Text(String),
    Bytes(Vec<u8>),
}

impl From<&Fill> for FillValue {
    fn from(fill: &Fill) -> Self {
        match fill {
            Fill::Integer(value) => (*value).into(),
            Fill::Number(value) => (*value).into(),
            Fill::Text(value) => value.as_str().into(),
            Fill::Bytes(value) => value.as_slice().into(),
        }
    }
}

/// What all readers of columns can be told.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Rows {
    label: Option<String>,
    select: Option<Vec<String>>,
    defaults: Vec<(String, Fill)>,
    required: Vec<String>,
    bad_rows: Option<u64>,
    non_finite: String,
}

impl Rows {
    fn bad_rows(&self) -> BadRows {
        self.bad_rows.map_or_else(BadRows::stop, BadRows::skip_at_most)
    }

    fn non_finite(&self) -> Result<NonFiniteValues> {
        Ok(match self.non_finite.as_str() {
            "fail" => NonFiniteValues::fail(),
            "skip" => NonFiniteValues::skip_rows(),
            "zero" => NonFiniteValues::zero(),
            "keep" => NonFiniteValues::keep(),
            other => return Err(no_such("non_finite", other, &["fail", "skip", "zero", "keep"])),
        })
    }
}

/// Returns the error for a word that is none of those known.
pub(crate) fn no_such(setting: &str, word: &str, known: &[&str]) -> Error {
    let error = Error::new(Code::BadSetting, format!("{setting} is {word:?}"));
    match nearest(word, known.iter().copied()) {
        Some(near) => error.help(format!("did you mean {near:?}?")),
        None => error.help(format!("choose one of {}", known.join(", "))),
    }
}

/// Applies [`Rows`] to a source.
macro_rules! with_rows {
    ($source:expr, $rows:expr) => {{
        let rows: &Rows = $rows;
        let mut source = $source.bad_rows(rows.bad_rows()).non_finite(rows.non_finite()?);
        if let Some(label) = &rows.label {
            source = source.label(label);
        }
        if let Some(select) = &rows.select {
            source = source.select(select);
        }
        for (name, value) in &rows.defaults {
            source = source.default_value(name, value);
        }
        for name in &rows.required {
            source = source.required(name);
        }
        source
    }};
}

/// How the text of CSV files is read.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct CsvText {
    names: Option<Vec<String>>,
    header: bool,
    delimiter: String,
    quotes: bool,
    trim: bool,
    na_values: Vec<String>,
    comment: Option<String>,
    types: Vec<(String, String)>,
}

/// Returns the type of this name.
pub(crate) fn dtype(name: &str) -> Result<DType> {
    Ok(match name {
        "float32" => DType::F32,
        "int64" => DType::I64,
        "uint8" => DType::U8,
        "string" => DType::Bytes,
        other => return Err(no_such("a type", other, &["float32", "int64", "uint8", "string"])),
    })
}

fn one_byte(setting: &str, text: &str) -> Result<u8> {
    match text.as_bytes() {
        &[byte] => Ok(byte),
        _ => Err(Error::new(Code::BadSetting, format!("{setting} is {text:?}")).help("give one ASCII character")),
    }
}

/// Returns the rows of CSV files.
pub(crate) fn csv(files: Vec<String>, text: &CsvText, rows: &Rows) -> Result<Dataset> {
    let mut source: Csv = data::csv(files)
        .header(text.header)
        .delimiter(one_byte("delimiter", &text.delimiter)?)
        .quotes(text.quotes)
        .trim(text.trim)
        .na_values(&text.na_values);
    if let Some(names) = &text.names {
        source = source.names(names);
    }
    if let Some(comment) = &text.comment {
        source = source.comment(one_byte("comment", comment)?);
    }
    for (name, wanted) in &text.types {
        source = source.column(name, dtype(wanted)?);
    }
    Ok(with_rows!(source, rows).dataset())
}

/// Returns the rows of Parquet files.
pub(crate) fn parquet(files: Vec<String>, rows: &Rows) -> Result<Dataset> {
    Ok(with_rows!(data::parquet(files), rows).dataset())
}

/// Returns the rows of record batches.
pub(crate) fn arrow(source: data::ArrowBatches, rows: &Rows) -> Result<Dataset> {
    Ok(with_rows!(source, rows).dataset())
}

/// A feature of Examples: name, type, and the number of values, or `None` for any number.
type Feature = (String, String, Option<usize>);

/// Returns the Examples of TFRecord files; without features, the records themselves.
pub(crate) fn tfrecord(files: Vec<String>, features: Option<Vec<Feature>>, rows: &Rows) -> Result<Dataset> {
    let records = data::tfrecord(files);
    let Some(features) = features else { return Ok(records.dataset()) };
    let specs = features.into_iter().map(|(name, kind, length)| {
        let kind = match dtype(&kind)? {
            DType::F32 => FeatureKind::F32,
            DType::I64 => FeatureKind::I64,
            DType::Bytes => FeatureKind::Bytes,
            DType::U8 => return Err(no_such("the type of a feature", &kind, &["float32", "int64", "string"])),
        };
        Ok(match length {
            Some(length) => FeatureSpec::fixed(name, kind, length),
            None => FeatureSpec::variable(name, kind),
        })
    });
    let specs: Vec<FeatureSpec> = specs.collect::<Result<_>>()?;
    let mut source = records.parse(specs).bad_rows(rows.bad_rows()).non_finite(rows.non_finite()?);
    if let Some(label) = &rows.label {
        source = source.label(label);
    }
    for (name, value) in &rows.defaults {
        source = source.default_value(name, value);
    }
    Ok(source.dataset())
}

/// Returns the arrays of `.npz` files.
pub(crate) fn npz(files: Vec<String>, label: Option<String>, select: Option<Vec<String>>) -> Dataset {
    let mut source = data::npz(files);
    if let Some(select) = select {
        source = source.select(select);
    }
    match label {
        Some(label) => source.label(label).dataset(),
        None => source.dataset(),
    }
}

/// Returns the lines of text files.
pub(crate) fn text_lines(files: Vec<String>, skip_lines: u64) -> Dataset {
    data::text_lines(files).skip_lines(skip_lines).dataset()
}
