//! A file that grows at its end.

use crate::fault;
use phalanx_base::Result;
use std::fs::File;
use std::io::{self, BufWriter, Write};

/// Adds to the end of a file. What was written becomes visible to readers with `flush`, and durable with
/// [`AppendFile::sync`].
#[derive(Debug)]
pub struct AppendFile {
    file: BufWriter<File>,
    place: String,
    size: u64,
}

impl AppendFile {
    pub(crate) fn new(file: File, size: u64, place: String) -> Self {
        Self { file: BufWriter::with_capacity(1 << 16, file), place, size }
    }

    /// How long the file was when it was opened, and what was written since.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Flushes, and waits until the bytes are on the disk.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn sync(&mut self) -> Result<()> {
        let done = self.file.flush().and_then(|()| self.file.get_ref().sync_data());
        done.map_err(|error| fault::write("append to the file", &self.place, &error))
    }

    fn explain(&self, error: &io::Error) -> io::Error {
        fault::as_io(fault::write("append to the file", &self.place, error), error.kind())
    }
}

impl Write for AppendFile {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let wrote = self.file.write(buf).map_err(|error| self.explain(&error))?;
        self.size += wrote as u64;
        Ok(wrote)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush().map_err(|error| self.explain(&error))
    }
}
