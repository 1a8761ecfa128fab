//! Reads one Parquet file into batches.

use super::chunks::Chunks;
use super::convert::{BadRow, column};
use super::plan::{ParquetOptions, Wanted, wanted};
use crate::files::open;
use crate::missing::missing_value;
use crate::{BadRows, Batch, DType, PartPosition, Reader, Schema};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use phalanx_base::{Code, Error, Result};
use std::collections::VecDeque;
use std::sync::Arc;

/// An opened file whose footer has been read.
pub(super) struct Opened {
    builder: ParquetRecordBatchReaderBuilder<Chunks>,
    path: String,
    pub(super) wanted: Vec<Wanted>,
    decode_bytes: usize,
    bad_rows: BadRows,
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
        let (decode_bytes, bad_rows) = (options.decode_bytes, options.bad_rows.clone());
        Ok(Self { builder, path: path.to_owned(), wanted, decode_bytes, bad_rows })
    }

    /// Begins to read at a place.
    pub(super) fn read(self, schema: Arc<Schema>, part: usize, from: PartPosition) -> Result<ParquetReader> {
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
        let Self { builder, path, wanted, decode_bytes, bad_rows } = self;
        let decoder = builder
            .with_projection(mask)
            .with_row_groups((first..group_rows.len()).collect())
            .with_offset(from.row as usize)
            .with_batch_size(decoded_rows(&wanted, decode_bytes))
            .build();
        let decoder = decoder.map_err(|error| unreadable(&path, &error))?;
        Ok(ParquetReader {
            path,
            part,
            wanted,
            schema,
            decoder,
            group_rows,
            place: from,
            decoded: None,
            bad: VecDeque::new(),
            bad_rows,
            ended: false,
        })
    }
}

/// `byte` of its position is the row group, `row` how many rows of it were read.
pub(super) struct ParquetReader {
    path: String,
    part: usize,
    wanted: Vec<Wanted>,
    schema: Arc<Schema>,
    decoder: ParquetRecordBatchReader,
    group_rows: Vec<u64>,
    place: PartPosition,
    /// What was decoded and not yet handed out.
    decoded: Option<Batch>,
    /// The rows of `decoded` that are refused, counted from its first row, in order.
    bad: VecDeque<(usize, BadRow)>,
    bad_rows: BadRows,
    ended: bool,
}

impl ParquetReader {
    fn decode(&mut self) -> Result<Option<Batch>> {
        let Some(decoded) = self.decoder.next() else { return Ok(None) };
        let decoded = decoded.map_err(|error| unreadable(&self.path, &error))?;
        let (_, arrays, _) = decoded.into_parts();
        let (mut columns, mut bad) = (Vec::with_capacity(arrays.len()), Vec::new());
        for (index, (array, wanted)) in arrays.into_iter().zip(&self.wanted).enumerate() {
            columns.push(column(array, wanted, index, &mut bad)?);
        }
        bad.sort_by_key(|(row, _)| *row);
        bad.dedup_by_key(|(row, _)| *row);
        self.bad = bad.into();
        Batch::with_schema(self.schema.clone(), columns).map(Some)
    }

    /// Refuses or skips the next row if it is bad.
    fn skip_bad(&mut self) -> Result<()> {
        while let (Some((0, bad)), Some(batch)) = (self.bad.front(), &self.decoded) {
            let row = self.row();
            let error = bad.error(&self.wanted).at(format!("{}, row {row}", self.path));
            self.bad_rows.accept(self.part, row, error)?;
            self.decoded = Some(batch.slice(1..batch.rows()));
            self.bad.pop_front();
            self.moved(1);
        }
        Ok(())
    }

    /// The number of the next row in the file, from 0.
    fn row(&self) -> u64 {
        self.group_rows.iter().take(self.place.byte as usize).sum::<u64>() + self.place.row
    }

    /// Advances by `rows` rows of `decoded`.
    fn moved(&mut self, rows: usize) {
        self.bad.iter_mut().for_each(|(row, _)| *row -= rows);
        self.advance(rows);
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
        loop {
            self.skip_bad()?;
            if self.decoded.as_ref().is_some_and(|batch| !batch.is_empty()) {
                break;
            }
            if self.ended {
                return Ok(None);
            }
            self.decoded = self.decode()?;
            self.ended = self.decoded.is_none();
        }
        let Some(batch) = self.decoded.take() else { return Ok(None) };
        let until = self.bad.front().map_or(batch.rows(), |(row, _)| *row);
        let rows = until.min(max_rows.max(1));
        if rows < batch.rows() {
            self.decoded = Some(batch.slice(rows..batch.rows()));
        }
        self.moved(rows);
        Ok(Some(batch.slice(0..rows)))
    }

    fn position(&self) -> PartPosition {
        self.place
    }

    fn last_row(&self) -> Option<String> {
        Some(format!("{}, row {}", self.path, self.row().saturating_sub(1)))
    }
}

impl BadRow {
    pub(crate) fn error(&self, wanted: &[Wanted]) -> Error {
        match self {
            Self::Missing { column } => {
                let wanted = &wanted[*column];
                missing_value(&wanted.name, wanted.is_label)
            }
            Self::TooLarge { column, value } => {
                let name = &wanted[*column].name;
                Error::new(Code::DataRow, format!("{value} is not a valid int64"))
                    .because(format!("column {name:?} has unsigned numbers, and int64 ends at {}", i64::MAX))
                    .help("write the column as strings, or skip bad rows")
            }
        }
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
    Error::new(Code::DataFormat, format!("{path:?} cannot be decoded"))
        .because(error)
        .help("the file is damaged or was cut short: write or copy it again")
}
