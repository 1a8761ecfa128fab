//! Examples, a row each, parsed into columns.

use super::Records;
use super::raw::{CHUNK, RecordFile};
use crate::{BadRows, Batch, Column, PartPosition, Reader, Schema, Source, Values};
use phalanx_base::{Error, Result};
use phalanx_formats::example::{self, ExampleParser, FeatureSpec};
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
    bad_rows: BadRows,
}

impl Examples {
    pub(super) fn new(records: Records, features: Vec<FeatureSpec>) -> Self {
        Self { records, features, label: None, bad_rows: BadRows::stop() }
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
}

impl Source for Examples {
    fn parts(&self) -> Result<usize> {
        self.records.parts()
    }

    fn open(&self, part: usize, from: PartPosition) -> Result<Box<dyn Reader>> {
        let parser = ExampleParser::new(self.features.clone())?;
        let mut schema = Schema::new(self.features.iter().map(|feature| feature.name.as_str()))?;
        if let Some(label) = &self.label {
            schema = schema.with_label(label)?;
        }
        Ok(Box::new(ExampleReader {
            file: self.records.open_file(part, from)?,
            part,
            parser,
            schema: Arc::new(schema),
            bad_rows: self.bad_rows.clone(),
            pending: None,
        }))
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
        let columns = self.parser.finish().columns.into_iter().map(convert).collect::<Result<_>>()?;
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
}

/// Turns a parsed column into one of this crate; the values are moved, not copied.
fn convert(column: example::ExampleColumn) -> Result<Column> {
    let values = match column.values {
        example::FeatureValues::F32(values) => Values::F32(values),
        example::FeatureValues::I64(values) => Values::I64(values),
        example::FeatureValues::Bytes(values) => Values::Bytes(values),
    };
    let mut made = Column::new(values);
    if column.width != 1 {
        made = made.with_row_shape([column.width])?;
    }
    match column.row_splits {
        Some(splits) => made.with_splits(splits),
        None => Ok(made),
    }
}
