//! Reads one Parquet file into batches.

use super::chunks::Chunks;
use super::convert::column;
use super::plan::{ParquetOptions, Wanted, wanted};
use crate::files::open;
use crate::{Batch, DType, PartPosition, Reader, Schema};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use phalanx_base::{Code, Error, Result};
use std::sync::Arc;

/// An opened file whose footer has been read.
pub(super) struct Opened {
    builder: ParquetRecordBatchReaderBuilder<Chunks>,
    path: String,
    pub(super) wanted: Vec<Wanted>,
    decode_bytes: usize,
}

impl Opened {
    pub(super) fn open(path: &str, options: &ParquetOptions) -> Result<Self> {
        let file = open(path)?;
        let size = file.size().unwrap_or(0);
        let chunks = Chunks::new(file)
            .map_err(|error| Error::new(Code::DataMissing, format!("cannot read {path:?}")).because(error))?;
        // The writer's own types would only add kinds of arrays that mean the same.
        let decoding = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(chunks, decoding).map_err(|error| {
            let why = if size == 0 { "it is empty".to_owned() } else { error.to_string() };
            Error::new(Code::DataFormat, format!("{path:?} is not a complete Parquet file"))
                .because(why)
                .help("its writer may have been killed before it wrote the end, or the copy of it was not finished")
        })?;
        let wanted = wanted(builder.schema(), options, path)?;
        Ok(Self { builder, path: path.to_owned(), wanted, decode_bytes: options.decode_bytes })
    }

    /// Begins to read at a place.
    pub(super) fn read(self, schema: Arc<Schema>, from: PartPosition) -> Result<ParquetReader> {
        let metadata = self.builder.metadata();
        let group_rows: Vec<u64> =
            metadata.row_groups().iter().map(|group| group.num_rows().try_into().unwrap_or(0)).collect();
        let first = usize::try_from(from.byte).unwrap_or(usize::MAX);
        let beyond = match group_rows.get(first) {
            Some(&rows) => from.row > rows,
            None => first > group_rows.len() || from.row > 0,
        };
        if beyond {
            return Err(Error::new(Code::DataFormat, format!("{:?} is shorter than it was", self.path))
                .because(format!("reading was to resume at row {} of row group {first}", from.row))
                .help("the files must not change between a checkpoint and its restoration"));
        }
        let roots = self.wanted.iter().filter_map(|wanted| self.builder.schema().index_of(&wanted.name).ok());
        let mask = ProjectionMask::roots(self.builder.parquet_schema(), roots);
        let Self { builder, path, wanted, decode_bytes } = self;
        let decoder = builder
            .with_projection(mask)
            .with_row_groups((first..group_rows.len()).collect())
            .with_offset(from.row as usize)
            .with_batch_size(decoded_rows(&wanted, decode_bytes))
            .build();
        let decoder = decoder.map_err(|error| unreadable(&path, &error))?;
        Ok(ParquetReader { path, wanted, schema, decoder, group_rows, place: from, decoded: None, ended: false })
    }
}

/// `byte` of its position is the row group, `row` how many rows of it were read.
pub(super) struct ParquetReader {
    path: String,
    wanted: Vec<Wanted>,
    schema: Arc<Schema>,
    decoder: ParquetRecordBatchReader,
    group_rows: Vec<u64>,
    place: PartPosition,
    /// What was decoded and not yet handed out.
    decoded: Option<Batch>,
    ended: bool,
}

impl ParquetReader {
    fn decode(&mut self) -> Result<Option<Batch>> {
        let Some(decoded) = self.decoder.next() else { return Ok(None) };
        let decoded = decoded.map_err(|error| unreadable(&self.path, &error))?;
        let (_, arrays, _) = decoded.into_parts();
        let mut columns = Vec::with_capacity(arrays.len());
        for (array, wanted) in arrays.into_iter().zip(&self.wanted) {
            columns.push(column(array, wanted).map_err(|error| {
                let inner = error.place().unwrap_or_default().to_owned();
                error.at(format!("{}, {inner}", self.path))
            })?);
        }
        Batch::with_schema(self.schema.clone(), columns).map(Some)
    }

    fn advance(&mut self, rows: usize) {
        self.place.row += rows as u64;
        while let Some(&group) = self.group_rows.get(self.place.byte as usize)
            && self.place.row >= group
        {
            self.place.row -= group;
            self.place.byte += 1;
        }
    }
}

impl Reader for ParquetReader {
    fn read(&mut self, max_rows: usize) -> Result<Option<Batch>> {
        while self.decoded.as_ref().is_none_or(Batch::is_empty) {
            if self.ended {
                return Ok(None);
            }
            self.decoded = self.decode()?;
            self.ended = self.decoded.is_none();
        }
        let Some(batch) = self.decoded.take() else { return Ok(None) };
        let rows = batch.rows().min(max_rows.max(1));
        if rows < batch.rows() {
            self.decoded = Some(batch.slice(rows..batch.rows()));
        }
        self.advance(rows);
        Ok(Some(batch.slice(0..rows)))
    }

    fn position(&self) -> PartPosition {
        self.place
    }
}

/// Strings and lists count double: how long they are is not known before.
fn decoded_rows(wanted: &[Wanted], bytes: usize) -> usize {
    let width = |wanted: &Wanted| if wanted.ragged || wanted.dtype == DType::Bytes { 16 } else { 8 };
    // A power of two, so that batches of the usual sizes are cut out of it without a rest.
    let rows = (bytes / wanted.iter().map(width).sum::<usize>().max(1)).clamp(1024, 1 << 17);
    1 << rows.ilog2()
}

fn unreadable(path: &str, error: &dyn std::fmt::Display) -> Error {
    Error::new(Code::DataFormat, format!("{path:?} cannot be decoded")).because(error)
}
