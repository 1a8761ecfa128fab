//! Writes a record file.

use super::Compression;
use crate::checksum;
use flate2::Compression as Level;
use flate2::write::{GzEncoder, ZlibEncoder};
use phalanx_base::{Code, Context, Error, Result};
use std::io::{BufWriter, IntoInnerError, Write};

/// Writes records, buffered. Call [`RecordWriter::finish`] at the end: a compressed file without its end is cut short,
/// and errors of a writer that is only dropped are lost.
///
/// The same records give the same bytes, gzip's too: its header carries no time.
pub struct RecordWriter<W: Write> {
    sink: Sink<W>,
    records: u64,
}

enum Sink<W: Write> {
    Plain(BufWriter<W>),
    Gzip(GzEncoder<BufWriter<W>>),
    Zlib(ZlibEncoder<BufWriter<W>>),
}

impl<W: Write> RecordWriter<W> {
    /// A writer without compression.
    #[must_use]
    pub fn new(write: W) -> Self {
        Self::with_compression(write, Compression::None)
    }

    /// A writer that compresses the whole file at zlib's default level.
    ///
    /// ```
    /// use phalanx_formats::record::{Compression, RecordWriter};
    /// let mut writer = RecordWriter::with_compression(Vec::new(), Compression::Gzip);
    /// writer.write_record(b"payload")?;
    /// assert_eq!(Compression::detect(&writer.finish()?), Compression::Gzip);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    #[must_use]
    pub fn with_compression(write: W, compression: Compression) -> Self {
        let write = BufWriter::with_capacity(64 << 10, write);
        let sink = match compression {
            Compression::None => Sink::Plain(write),
            Compression::Gzip => Sink::Gzip(GzEncoder::new(write, Level::default())),
            Compression::Zlib => Sink::Zlib(ZlibEncoder::new(write, Level::default())),
        };
        Self { sink, records: 0 }
    }

    /// Adds one record.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_record(&mut self, payload: &[u8]) -> Result<()> {
        let length = (payload.len() as u64).to_le_bytes();
        let mut header = [0; super::HEADER_BYTES];
        header[..8].copy_from_slice(&length);
        header[8..].copy_from_slice(&checksum::masked(&length).to_le_bytes());
        let footer = checksum::masked(payload).to_le_bytes();
        let sink = self.sink.as_write();
        let written =
            sink.write_all(&header).and_then(|()| sink.write_all(payload)).and_then(|()| sink.write_all(&footer));
        written.map_err(|error| unwritten(error).at(format!("record {}", self.records)))?;
        self.records += 1;
        Ok(())
    }

    /// How many records were written.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Hands everything so far to the underlying writer and flushes that. A compressed file grows a little with every
    /// flush.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn flush(&mut self) -> Result<()> {
        self.sink.as_write().flush().map_err(unwritten)
    }

    /// Ends the file and gives back the underlying writer, flushed.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(self) -> Result<W> {
        let buffered = match self.sink {
            Sink::Plain(sink) => Ok(sink),
            Sink::Gzip(sink) => sink.finish(),
            Sink::Zlib(sink) => sink.finish(),
        };
        let mut write =
            buffered.and_then(|sink| sink.into_inner().map_err(IntoInnerError::into_error)).map_err(unwritten)?;
        write.flush().context(Code::DataMissing, "the record file cannot be written")?;
        Ok(write)
    }
}

impl<W: Write> Sink<W> {
    fn as_write(&mut self) -> &mut dyn Write {
        match self {
            Self::Plain(sink) => sink,
            Self::Gzip(sink) => sink,
            Self::Zlib(sink) => sink,
        }
    }
}

fn unwritten(error: std::io::Error) -> Error {
    Error::new(Code::DataMissing, "the record file cannot be written").because(error)
}

impl<W: Write> std::fmt::Debug for RecordWriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RecordWriter {{ records: {} }}", self.records)
    }
}
