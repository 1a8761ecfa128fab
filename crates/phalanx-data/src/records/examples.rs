//! Examples, a row each, parsed into columns.

use super::Records;
use super::raw::{CHUNK, RecordFile};
use crate::missing::{Fill, fill_rows};
use crate::{BadRows, Batch, Column, DType, FillValue, NonFiniteValues, PartPosition, Reader, Schema, Source, Values};
use phalanx_base::{Code, Error, Result};
use phalanx_formats::example::{self, ExampleParser, FeatureKind, FeatureLayout, FeatureSpec, FeatureValues};
use std::sync::Arc;

/// TFRecord files of Examples; made by [`Records::parse`].
///
/// A fixed feature of one value is a column of one value per row, of more values one of rows of that shape. Variable
/// and ragged features are ragged columns.
#[derive(Clone, Debug)]
pub struct Examples {
    records: Records,
    features: Vec<FeatureSpec>,
    label: Option<String>,
    defaults: Vec<(String, Fill)>,
    bad_rows: BadRows,
    non_finite: NonFiniteValues,
}

impl Examples {
    pub(super) fn new(records: Records, features: Vec<FeatureSpec>) -> Self {
        let (bad_rows, non_finite) = (BadRows::stop(), NonFiniteValues::fail());
        Self { records, features, label: None, defaults: Vec::new(), bad_rows, non_finite }
    }

    /// Marks a feature as the label.
    #[must_use]
    pub fn label(self, name: impl Into<String>) -> Self {
        Self { label: Some(name.into()), ..self }
    }

    /// Sets what happens to records that do not match the features. Default: reading stops at the first. A file that is
    /// damaged or cut short always stops it.
    #[must_use]
    pub fn bad_rows(self, bad_rows: BadRows) -> Self {
        Self { bad_rows, ..self }
    }

    /// Sets the value of a feature where it is missing. A feature of fixed length without one must be there; one of any
    /// length is otherwise empty.
    #[must_use]
    pub fn default_value(mut self, name: impl Into<String>, value: impl Into<FillValue>) -> Self {
        self.defaults.push((name.into(), value.into().0));
        self
    }

    /// Sets what happens to NaN and infinite numbers. Default: reading stops at the first.
    #[must_use]
    pub fn non_finite(self, non_finite: NonFiniteValues) -> Self {
        Self { non_finite, ..self }
    }

    fn default_of(&self, spec: &FeatureSpec) -> Result<Option<Fill>> {
        let given = self.defaults.iter().find(|(name, _)| *name == spec.name);
        let dtype = match spec.kind {
            FeatureKind::F32 => DType::F32,
            FeatureKind::I64 => DType::I64,
            FeatureKind::Bytes => DType::Bytes,
        };
        given.map(|(name, fill)| fill.of_type(name, dtype)).transpose()
    }

    /// Returns the features whose default is NaN: there, NaN marks a missing value.
    fn nan_is_missing(&self) -> Vec<String> {
        let of_spec = |spec: &FeatureSpec| match &spec.default {
            Some(FeatureValues::F32(values)) => values.iter().any(|value| value.is_nan()),
            _ => matches!(self.default_of(spec), Ok(Some(Fill::F32(value))) if value.is_nan()),
        };
        self.features.iter().filter(|spec| of_spec(spec)).map(|spec| spec.name.clone()).collect()
    }

    fn open_unchecked(&self, part: usize, from: PartPosition) -> Result<Box<dyn Reader>> {
        let (mut features, mut fills) = (self.features.clone(), Vec::with_capacity(self.features.len()));
        for spec in &mut features {
            let default = self.default_of(spec)?;
            let is_fixed = matches!(spec.layout, FeatureLayout::Fixed(_));
            if default.is_some() && matches!(spec.layout, FeatureLayout::Ragged(_)) {
                let what = format!("the ragged feature {:?} cannot have a default", spec.name);
                return Err(Error::new(Code::BadSetting, what).help("leave the default out: a missing one is empty"));
            }
            fills.push(default.clone().filter(|_| !is_fixed));
            if let Some(default) = default.filter(|_| is_fixed) {
                spec.default = Some(feature_values(default));
            }
        }
        let mut schema = Schema::new(features.iter().map(|feature| feature.name.as_str()))?;
        if let Some(label) = &self.label {
            schema = schema.with_label(label)?;
        }
        Ok(Box::new(ExampleReader {
            file: self.records.open_file(part, from)?,
            part,
            parser: ExampleParser::new(features)?,
            fills,
            schema: Arc::new(schema),
            bad_rows: self.bad_rows.clone(),
            pending: None,
        }))
    }
}

fn feature_values(fill: Fill) -> FeatureValues {
    match fill {
        Fill::F32(value) => FeatureValues::F32(vec![value]),
        Fill::I64(value) => FeatureValues::I64(vec![value]),
        Fill::Bytes(value) => FeatureValues::Bytes([value].into_iter().collect()),
    }
}

impl Source for Examples {
    fn parts(&self) -> Result<usize> {
        self.records.parts()
    }

    fn open(&self, part: usize, from: PartPosition) -> Result<Box<dyn Reader>> {
        let reader = self.open_unchecked(part, from)?;
        let source = self.clone();
        let reopen = move |from| source.open_unchecked(part, from);
        Ok(self.non_finite.check(reader, part, self.nan_is_missing(), reopen))
    }

    fn kind(&self) -> &str {
        "tfrecord"
    }

    fn part_name(&self, part: usize) -> String {
        self.records.part_name(part)
    }
}

struct ExampleReader {
    file: RecordFile,
    part: usize,
    parser: ExampleParser,
    /// The defaults of features of any length.
    fills: Vec<Option<Fill>>,
    schema: Arc<Schema>,
    bad_rows: BadRows,
    /// An error that is returned after the rows before it, and where it was found.
    pending: Option<(Error, PartPosition)>,
}

impl ExampleReader {
    /// Reads a record into the parser; how many bytes it had, or `None` at the end.
    fn read_record(&mut self) -> Result<Option<usize>> {
        let Some(record) = self.file.next()? else { return Ok(None) };
        let size = record.len();
        if let Err(error) = self.parser.push(record) {
            let place = self.file.position().byte;
            let error = error.at(self.file.last_place());
            self.bad_rows.accept(self.part, place, error)?;
        }
        Ok(Some(size))
    }

    fn take(&mut self) -> Result<Batch> {
        let columns = self.parser.finish().columns.into_iter().zip(&self.fills);
        let columns = columns.map(|(column, fill)| convert(column, fill.as_ref())).collect::<Result<_>>()?;
        Batch::with_schema(self.schema.clone(), columns)
    }
}

impl Reader for ExampleReader {
    fn read(&mut self, max_rows: usize) -> Result<Option<Batch>> {
        let mut bytes = 0;
        while self.pending.is_none() && self.parser.rows() < max_rows.max(1) {
            let place = self.file.position();
            match self.read_record() {
                Ok(Some(size)) => bytes += size,
                Ok(None) => break,
                Err(error) => self.pending = Some((error, place)),
            }
            if bytes > CHUNK && self.parser.rows() > 0 {
                break;
            }
        }
        if self.parser.rows() > 0 {
            return self.take().map(Some);
        }
        self.pending.take().map_or(Ok(None), |(error, _)| Err(error))
    }

    fn position(&self) -> PartPosition {
        // A reader that resumes here must find the bad record too.
        self.pending.as_ref().map_or_else(|| self.file.position(), |(_, place)| *place)
    }

    fn last_row(&self) -> Option<String> {
        Some(self.file.last_place())
    }
}

/// Turns a parsed column into one of this crate; the values are moved, not copied.
fn convert(column: example::ExampleColumn, fill: Option<&Fill>) -> Result<Column> {
    let values = match column.values {
        example::FeatureValues::F32(values) => Values::F32(values),
        example::FeatureValues::I64(values) => Values::I64(values),
        example::FeatureValues::Bytes(values) => Values::Bytes(values),
    };
    if let (Some(fill), Some(splits)) = (fill, &column.row_splits)
        && splits.windows(2).any(|pair| pair[0] == pair[1])
    {
        return fill_rows(&values, splits, |row| splits[row] == splits[row + 1], fill);
    }
    let mut made = Column::new(values);
    if column.width != 1 {
        made = made.with_row_shape([column.width])?;
    }
    match column.row_splits {
        Some(splits) => made.with_splits(splits),
        None => Ok(made),
    }
}
