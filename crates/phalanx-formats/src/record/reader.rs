//! Reads a record file from front to back.

use super::input::RecordInput;
use super::{Compression, FOOTER_BYTES, HEADER_BYTES, ReadOptions};
use crate::checksum;
use phalanx_base::{Code, Context, Error, Result};
use std::io::{ErrorKind, Read};

/// Reads records one after another into one buffer, checking both checksums of each.
///
/// Errors carry the record's number, counted from 0, and the offset of its first byte in the decompressed file. After
/// an error the reader stays there: every further call gives the same error.
pub struct RecordReader<R> {
    input: RecordInput<R>,
    compression: Compression,
    max_record_bytes: u64,
    /// Never shrinks, so that its zeros are written once.
    buffer: Vec<u8>,
    records: u64,
    offset: u64,
    failed: Option<Error>,
}

/// What the buffer is at least; beyond that it doubles, and only when it is full of bytes that were read.
const FIRST_BYTES: usize = 64 << 10;

impl<R: Read> RecordReader<R> {
    /// A reader of a file without compression.
    #[must_use]
    pub fn new(read: R) -> Self {
        let options = ReadOptions::default();
        let input = RecordInput::new(read, Compression::None, options.max_ratio);
        Self::from_input(input, Compression::None, &options)
    }

    /// A reader with its own limits, of a file of any compression.
    ///
    /// # Errors
    /// When the compression is not given and the first bytes cannot be read.
    pub fn with_options(read: R, options: &ReadOptions) -> Result<Self> {
        let (input, compression) = match options.compression {
            Some(compression) => (RecordInput::new(read, compression, options.max_ratio), compression),
            None => RecordInput::detect(read, options.max_ratio)
                .context(Code::DataMissing, "the record file cannot be read")?,
        };
        Ok(Self::from_input(input, compression, options))
    }

    fn from_input(input: RecordInput<R>, compression: Compression, options: &ReadOptions) -> Self {
        Self {
            input,
            compression,
            max_record_bytes: options.max_record_bytes,
            buffer: Vec::new(),
            records: 0,
            offset: 0,
            failed: None,
        }
    }

    /// The same reader with another limit on the length of a record.
    #[must_use]
    pub fn with_max_record_bytes(self, max_record_bytes: u64) -> Self {
        Self { max_record_bytes, ..self }
    }

    /// The next record, or `None` at the end of the file.
    ///
    /// # Errors
    /// When the file is cut short, a checksum or the compression is wrong, a record or the whole is beyond its limit,
    /// or the file cannot be read.
    pub fn next_record(&mut self) -> Result<Option<&[u8]>> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        match self.read() {
            Ok(Some(length)) => {
                self.records += 1;
                self.offset += (HEADER_BYTES + length + FOOTER_BYTES) as u64;
                Ok(Some(&self.buffer[..length]))
            }
            Ok(None) => Ok(None),
            Err(error) => {
                self.failed = Some(error.clone());
                Err(error)
            }
        }
    }

    /// How many records were read.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Where the next record begins, in bytes of the decompressed file.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The file's compression, given or found.
    #[must_use]
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Reads one record into the buffer; the length of its payload.
    fn read(&mut self) -> Result<Option<usize>> {
        let mut header = [0; HEADER_BYTES];
        match self.input.fill(&mut header).map_err(|error| self.unreadable(&error))? {
            0 => return Ok(None),
            HEADER_BYTES => {}
            count => return Err(self.cut_short(&format!("{count} of the {HEADER_BYTES} bytes before its payload"))),
        }
        let [a, b, c, d, e, f, g, h, crc @ ..] = header;
        let length = [a, b, c, d, e, f, g, h];
        if checksum::masked(&length) != u32::from_le_bytes(crc) {
            let error = self.corrupt("its length does not have its checksum");
            return Err(if self.records == 0 {
                error.help("is it a TFRecord file of this compression?")
            } else {
                error
            });
        }
        let length = u64::from_le_bytes(length);
        if length > self.max_record_bytes {
            let limit = self.max_record_bytes;
            return Err(self.corrupt(&format!("it has {length} bytes, the limit is {limit}")).help("raise the limit"));
        }
        let Some(wanted) = usize::try_from(length).ok().and_then(|length| length.checked_add(FOOTER_BYTES)) else {
            return Err(self.corrupt(&format!("it has {length} bytes, more than this machine can hold")));
        };
        let have = self.read_payload(wanted)?;
        if have < wanted {
            return Err(self.cut_short(&format!("{have} of the {wanted} bytes of its payload and checksum")));
        }
        let (payload, crc) = self.buffer[..wanted].split_at(wanted - FOOTER_BYTES);
        if checksum::masked(payload).to_le_bytes() != crc {
            return Err(self.corrupt("its payload does not have its checksum"));
        }
        Ok(Some(payload.len()))
    }

    /// Fills the front of the buffer, which grows only when it is full; how many bytes there were.
    fn read_payload(&mut self, wanted: usize) -> Result<usize> {
        let mut have = 0;
        loop {
            let end = wanted.min(self.buffer.len());
            let read = self.input.fill(&mut self.buffer[have..end]).map_err(|error| self.unreadable(&error))?;
            have += read;
            if have < end || have == wanted {
                return Ok(have);
            }
            let room = self.buffer.len().saturating_mul(2).max(FIRST_BYTES);
            self.buffer.resize(room.min(wanted.max(FIRST_BYTES)), 0);
        }
    }

    fn place(&self) -> String {
        format!("record {}, byte {}", self.records, self.offset)
    }

    fn corrupt(&self, why: &str) -> Error {
        Error::new(Code::DataFormat, "the record file is corrupt").at(self.place()).because(why)
    }

    fn cut_short(&self, what: &str) -> Error {
        let error = Error::new(Code::DataFormat, "the record file is cut short").at(self.place());
        error.because(format!("it ends after {what}")).help("its writer may have been killed, or still be writing")
    }

    fn unreadable(&self, error: &std::io::Error) -> Error {
        match error.kind() {
            ErrorKind::UnexpectedEof => self.cut_short(&format!("less than its {} stream says", self.compression)),
            ErrorKind::InvalidData | ErrorKind::InvalidInput => {
                self.corrupt(&format!("{} does not decompress: {error}", self.compression))
            }
            _ => Error::new(Code::DataMissing, "the record file cannot be read").at(self.place()).because(error),
        }
    }
}

impl<R> std::fmt::Debug for RecordReader<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { compression, records, offset, .. } = self;
        write!(f, "RecordReader {{ compression: {compression}, records: {records}, offset: {offset} }}")
    }
}
