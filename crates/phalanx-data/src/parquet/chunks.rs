//! An open file as the Parquet library wants it.

use crate::files::OpenFile;
use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};
use std::io::{BufReader, Read, Result, SeekFrom};
use std::sync::{Arc, Mutex, PoisonError};

/// The decoder reads a page's header from a stream and its body by length: more would be read twice.
const HEADER_BYTES: usize = 1 << 10;

/// A file that several parts of the decoder read at places of their own.
#[derive(Clone)]
pub(super) struct Chunks {
    file: Arc<Mutex<Box<dyn OpenFile>>>,
    size: u64,
}

/// Reads on from one place, wherever others read meanwhile.
pub(super) struct From {
    chunks: Chunks,
    at: u64,
}

impl Chunks {
    pub(super) fn new(file: Box<dyn OpenFile>) -> Result<Self> {
        let size = file.size()?;
        Ok(Self { file: Arc::new(Mutex::new(file)), size })
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> Result<usize> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(at))?;
        file.read(buffer)
    }
}

impl Length for Chunks {
    fn len(&self) -> u64 {
        self.size
    }
}

impl Read for From {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let count = self.chunks.read_at(self.at, buffer)?;
        self.at += count as u64;
        Ok(count)
    }
}

impl ChunkReader for Chunks {
    type T = BufReader<From>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        Ok(BufReader::with_capacity(HEADER_BYTES, From { chunks: self.clone(), at: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        // A length from a damaged file is not believed before the file is seen to have it.
        if start.checked_add(length as u64).is_none_or(|end| end > self.size) {
            let have = self.size;
            return Err(ParquetError::EOF(format!("{length} bytes from byte {start} on are wanted, it has {have}")));
        }
        let mut buffer = Vec::with_capacity(length);
        From { chunks: self.clone(), at: start }.take(length as u64).read_to_end(&mut buffer)?;
        if buffer.len() < length {
            return Err(ParquetError::EOF(format!("it ends after {} of {length} bytes", buffer.len())));
        }
        Ok(buffer.into())
    }
}
