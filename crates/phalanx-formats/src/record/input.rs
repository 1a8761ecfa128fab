//! The bytes behind a record reader: counted, sniffed at, decompressed.

use super::{Compression, ReadOptions};
use flate2::bufread::MultiGzDecoder;
use flate2::{Decompress, FlushDecompress, Status};
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result};

const BUFFER_BYTES: usize = 256 << 10;

/// A source of decompressed bytes with a limit on how much they may grow.
pub(super) struct RecordInput<R> {
    stream: Stream<R>,
    delivered: u64,
    max_ratio: u64,
}

enum Stream<R> {
    Plain(BufReader<Counted<R>>),
    Gzip(MultiGzDecoder<BufReader<Counted<R>>>),
    Zlib(Inflate<BufReader<Counted<R>>>),
}

impl<R: Read> RecordInput<R> {
    /// An input of a known compression; reads nothing yet.
    pub(super) fn new(read: R, compression: Compression, max_ratio: u64) -> Self {
        Self::from_counted(Counted { head: Vec::new(), read, count: 0 }, compression, max_ratio)
    }

    /// An input whose first bytes tell its compression.
    pub(super) fn detect(read: R, max_ratio: u64) -> Result<(Self, Compression)> {
        let mut counted = Counted { head: Vec::new(), read, count: 0 };
        let compression = Compression::detect(counted.peek()?);
        Ok((Self::from_counted(counted, compression, max_ratio), compression))
    }

    fn from_counted(counted: Counted<R>, compression: Compression, max_ratio: u64) -> Self {
        let buffered = BufReader::with_capacity(BUFFER_BYTES, counted);
        let stream = match compression {
            Compression::None => Stream::Plain(buffered),
            Compression::Gzip => Stream::Gzip(MultiGzDecoder::new(buffered)),
            Compression::Zlib => Stream::Zlib(Inflate::new(buffered)),
        };
        Self { stream, delivered: 0, max_ratio }
    }

    /// Reads until `buffer` is full or the input ends; how many bytes that were.
    pub(super) fn fill(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            let read = match &mut self.stream {
                Stream::Plain(stream) => stream.read(&mut buffer[filled..]),
                Stream::Gzip(stream) => stream.read(&mut buffer[filled..]),
                Stream::Zlib(stream) => stream.read(&mut buffer[filled..]),
            };
            match read {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.delivered += filled as u64;
        self.check_ratio()?;
        Ok(filled)
    }

    fn check_ratio(&self) -> Result<()> {
        let compressed = match &self.stream {
            Stream::Plain(_) => return Ok(()),
            Stream::Gzip(stream) => stream.get_ref().get_ref().count,
            Stream::Zlib(stream) => stream.input.get_ref().count,
        };
        let allowed = compressed.saturating_mul(self.max_ratio).saturating_add(ReadOptions::FREE_BYTES);
        if self.delivered <= allowed {
            return Ok(());
        }
        let text = format!(
            "{compressed} compressed bytes became more than {allowed} (at most {} to one is allowed)",
            self.max_ratio
        );
        Err(Error::new(ErrorKind::InvalidData, text))
    }
}

/// Counts what is read; gives back first what was peeked at.
struct Counted<R> {
    head: Vec<u8>,
    read: R,
    count: u64,
}

impl<R: Read> Counted<R> {
    fn peek(&mut self) -> Result<&[u8]> {
        self.read.by_ref().take(Compression::DETECT_BYTES as u64).read_to_end(&mut self.head)?;
        Ok(&self.head)
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let count = if self.head.is_empty() {
            self.read.read(buffer)?
        } else {
            let count = self.head.len().min(buffer.len());
            buffer[..count].copy_from_slice(&self.head[..count]);
            self.head.drain(..count);
            count
        };
        self.count += count as u64;
        Ok(count)
    }
}

/// A zlib stream that must end as one: flate2's own reader takes a file that was cut short for a whole one.
struct Inflate<R> {
    input: R,
    state: Decompress,
    ended: bool,
}

impl<R: BufRead> Inflate<R> {
    fn new(input: R) -> Self {
        Self { input, state: Decompress::new(true), ended: false }
    }
}

impl<R: BufRead> Read for Inflate<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        loop {
            let available = self.input.fill_buf()?;
            if self.ended {
                let rest = !available.is_empty();
                return if rest {
                    Err(Error::new(ErrorKind::InvalidData, "bytes after the end of zlib"))
                } else {
                    Ok(0)
                };
            }
            let at_end = available.is_empty();
            let (taken, given) = (self.state.total_in(), self.state.total_out());
            let status = self.state.decompress(available, buffer, FlushDecompress::None);
            let taken = (self.state.total_in() - taken) as usize;
            let given = (self.state.total_out() - given) as usize;
            self.input.consume(taken);
            match status {
                Err(error) => return Err(Error::new(ErrorKind::InvalidData, error)),
                Ok(Status::StreamEnd) => self.ended = true,
                // An empty file is one of no records, as TensorFlow sees it.
                Ok(_) if at_end && given == 0 => {
                    let empty = self.state.total_in() == 0;
                    return if empty { Ok(0) } else { Err(ErrorKind::UnexpectedEof.into()) };
                }
                // Never seen; but a loop that nothing moves would not end.
                Ok(_) if taken == 0 && given == 0 && !buffer.is_empty() => {
                    return Err(Error::new(ErrorKind::InvalidData, "zlib makes no progress"));
                }
                Ok(_) => {}
            }
            if given > 0 || buffer.is_empty() {
                return Ok(given);
            }
        }
    }
}
