//! A file to read.

use crate::fault;
use crate::store::Source;
use phalanx_base::{Code, Error, Result};
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

/// One version of a file: a file published over it later is not mixed into what this one reads.
///
/// It reads in order (`Read`, `Seek`) and by position ([`ReadFile::read_at`]), the latter from many threads at once.
/// Local files are not buffered here; wrap it into a `BufReader` for small reads. Clones have positions of their own.
#[derive(Clone)]
pub struct ReadFile {
    source: Arc<dyn Source>,
    place: String,
    position: u64,
}

impl ReadFile {
    pub(crate) fn new(source: Box<dyn Source>, place: String) -> Self {
        Self { source: source.into(), place, position: 0 }
    }

    /// How many bytes the file has now; a local file may grow.
    ///
    /// # Errors
    /// When that cannot be found out.
    pub fn size(&self) -> Result<u64> {
        self.source.size().map_err(|error| fault::read("read the file", &self.place, &error))
    }

    /// Reads what there is from `offset` on, at most `buf.len()` bytes; 0 means the end of the file.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.source.read_at(offset, buf).map_err(|error| fault::read("read the file", &self.place, &error))
    }

    /// Fills all of `buf` from `offset` on.
    ///
    /// # Errors
    /// When it cannot be read, or the file ends before.
    pub fn read_exact_at(&self, mut offset: u64, mut buf: &mut [u8]) -> Result<()> {
        while !buf.is_empty() {
            match self.read_at(offset, buf)? {
                0 => return Err(self.ends(offset, buf.len() as u64)),
                read => {
                    offset += read as u64;
                    buf = &mut buf[read..];
                }
            }
        }
        Ok(())
    }

    /// The `len` bytes from `offset` on. Nothing is allocated for a range that the file does not have.
    ///
    /// # Errors
    /// When it cannot be read, or the file ends before.
    pub fn read_range(&self, offset: u64, len: u64) -> Result<Vec<u8>> {
        let size = self.size()?;
        let end = offset.checked_add(len).filter(|&end| end <= size);
        let len = end.and(usize::try_from(len).ok()).ok_or_else(|| self.ends(offset, len))?;
        let mut bytes = vec![0; len];
        self.read_exact_at(offset, &mut bytes)?;
        Ok(bytes)
    }

    fn ends(&self, offset: u64, len: u64) -> Error {
        Error::new(Code::StorageRead, "the file is shorter than it should be")
            .at(&self.place)
            .because(format!("it ends before {len} bytes at offset {offset}"))
            .help("it was cut off or belongs to something else; use an older checkpoint or the original file")
    }

    fn explain(&self, error: &io::Error) -> io::Error {
        fault::as_io(fault::read("read the file", &self.place, error), error.kind())
    }
}

impl Read for ReadFile {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read_at(self.position, buf).map_err(|error| self.explain(&error))?;
        self.position += read as u64;
        Ok(read)
    }
}

impl Seek for ReadFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => self.source.size().map_err(|error| self.explain(&error))?.checked_add_signed(by),
        };
        let before = || io::Error::new(io::ErrorKind::InvalidInput, "a seek to before the start of the file");
        self.position = position.ok_or_else(before)?;
        Ok(self.position)
    }
}

impl std::fmt::Debug for ReadFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadFile").field("place", &self.place).field("position", &self.position).finish_non_exhaustive()
    }
}
