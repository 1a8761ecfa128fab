//! Reads several files of equal rows side by side, one column each.

use super::{Conversion, Layout};
use crate::{Batch, PartPosition, Reader, Schema};
use phalanx_base::{Code, Error, Result};
use std::io::Read;
use std::sync::Arc;

/// How many bytes of one column become one batch at most.
const CHUNK: usize = 1 << 20;

/// One opened column.
pub(crate) struct Opened {
    /// The file, and what in it, for messages.
    pub(crate) place: String,
    pub(crate) name: String,
    pub(crate) layout: Layout,
    /// At the first byte of the next row.
    pub(crate) stream: Box<dyn Read + Send>,
    pub(crate) conversion: Conversion,
}

/// Columns read side by side. `row` of its position counts the rows that were read.
pub(crate) struct StridedReader {
    columns: Vec<Opened>,
    schema: Arc<Schema>,
    rows: u64,
    next: u64,
    buffer: Vec<u8>,
}

impl StridedReader {
    /// Columns whose streams stand at row `next`.
    pub(crate) fn new(columns: Vec<Opened>, label: Option<&str>, next: u64) -> Result<Self> {
        let mut schema = Schema::new(columns.iter().map(|column| column.name.as_str()))?;
        if let Some(label) = label {
            schema = schema.with_label(label)?;
        }
        let rows = columns.first().map_or(0, |column| column.layout.rows);
        if let Some(other) = columns.iter().find(|column| column.layout.rows != rows) {
            let first = &columns[0];
            return Err(Error::new(Code::DataFormat, "columns have different numbers of rows")
                .because(format!("{} has {rows}, {} has {}", first.place, other.place, other.layout.rows)));
        }
        if next > rows {
            return Err(Error::new(Code::DataFormat, format!("{} is shorter than it was", columns[0].place))
                .because(format!("reading was to resume after row {next}, and it has {rows}")));
        }
        Ok(Self { columns, schema: Arc::new(schema), rows, next, buffer: Vec::new() })
    }

    fn chunk_rows(&self, max_rows: usize) -> usize {
        let widest = self.columns.iter().filter_map(|column| column.layout.stride()).max().unwrap_or(1).max(1);
        let left = usize::try_from(self.rows - self.next).unwrap_or(usize::MAX);
        max_rows.min(CHUNK / widest).max(1).min(left)
    }
}

impl Reader for StridedReader {
    fn read(&mut self, max_rows: usize) -> Result<Option<Batch>> {
        let rows = self.chunk_rows(max_rows);
        if rows == 0 {
            return Ok(None);
        }
        let mut columns = Vec::with_capacity(self.columns.len());
        for column in &mut self.columns {
            columns.push(column.read(rows, self.next, &mut self.buffer)?);
        }
        self.next += rows as u64;
        Batch::with_schema(self.schema.clone(), columns).map(Some)
    }

    fn position(&self) -> PartPosition {
        PartPosition { row: self.next, ..PartPosition::START }
    }
}

impl Opened {
    fn read(&mut self, rows: usize, next: u64, buffer: &mut Vec<u8>) -> Result<crate::Column> {
        let stride = self.layout.stride().unwrap_or(0);
        let Some(wanted) = stride.checked_mul(rows) else {
            return Err(Error::new(Code::DataFormat, format!("{} has rows of {stride} bytes", self.place)));
        };
        buffer.clear();
        let read = self.stream.by_ref().take(wanted as u64).read_to_end(buffer);
        if let Err(error) = read {
            let format = matches!(error.kind(), std::io::ErrorKind::InvalidData | std::io::ErrorKind::UnexpectedEof);
            let code = if format { Code::DataFormat } else { Code::DataMissing };
            return Err(Error::new(code, format!("cannot read {}", self.place)).because(error));
        }
        if buffer.len() < wanted {
            let row = next + (buffer.len() / stride.max(1)) as u64;
            return Err(Error::new(Code::DataFormat, format!("{} is cut short", self.place))
                .because(format!("its header promises {} rows, it ends inside row {row}", self.layout.rows))
                .help("copy it again; its writer may have been killed"));
        }
        self.layout.column(buffer, rows, self.conversion)
    }
}
