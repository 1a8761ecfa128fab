//! A file that is not published yet.

use crate::fault;
use crate::store::Sink;
use phalanx_base::{Error, Result};
use std::io::{self, Write};

/// Both disks and object stores prefer few large writes.
const BUFFER_BYTES: usize = 1 << 20;

/// A file that nobody sees yet. Write to it, then [`StagedFile::finish`] and [`Dir::publish`](crate::Dir::publish).
/// Dropped before, it is removed.
pub struct StagedFile {
    name: String,
    place: String,
    size: u64,
    buffer: Vec<u8>,
    sink: Box<dyn Sink>,
    /// The first failure. After it the file has a hole, so nothing may be written or finished any more.
    failed: Option<Error>,
}

/// A file that is complete and durable, but still under its temporary name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Staged {
    /// The temporary name, for [`Dir::publish`](crate::Dir::publish).
    pub name: String,
    /// How many bytes it has.
    pub size: u64,
}

impl StagedFile {
    pub(crate) fn new(name: String, place: String, sink: Box<dyn Sink>) -> Self {
        Self { name, place, size: 0, buffer: Vec::new(), sink, failed: None }
    }

    /// The temporary name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes everything that was written durable.
    ///
    /// # Errors
    /// When that fails, or a write failed before; the temporary file is then removed.
    pub fn finish(mut self) -> Result<Staged> {
        // The first failure is kept in `failed`, with more to say than its echo through `std::io`.
        let _ = self.drain();
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.sink.finish()?;
        Ok(Staged { name: std::mem::take(&mut self.name), size: self.size })
    }

    /// Hands the buffer to the sink.
    fn drain(&mut self) -> io::Result<()> {
        let wrote = self.check().and_then(|()| self.sink.write_all(&self.buffer));
        self.buffer.clear();
        wrote.map_err(|error| self.fail(&error))
    }

    fn check(&self) -> io::Result<()> {
        self.failed.as_ref().map_or(Ok(()), |error| Err(fault::as_io(error.clone(), io::ErrorKind::Other)))
    }

    fn fail(&mut self, error: &io::Error) -> io::Error {
        let ours = self.failed.get_or_insert_with(|| fault::write("write the file", &self.place, error));
        fault::as_io(ours.clone(), error.kind())
    }
}

impl Write for StagedFile {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.check()?;
        if self.buffer.len() + buf.len() > BUFFER_BYTES {
            self.drain()?;
        }
        if buf.len() >= BUFFER_BYTES {
            self.sink.write_all(buf).map_err(|error| self.fail(&error))?;
        } else {
            self.buffer.extend_from_slice(buf);
        }
        self.size += buf.len() as u64;
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.drain()
    }
}

impl std::fmt::Debug for StagedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StagedFile").field("place", &self.place).field("size", &self.size).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_base::Code;

    /// A device that is always full.
    struct Full(std::fs::File);

    impl Sink for Full {
        fn finish(&mut self) -> Result<()> {
            Ok(())
        }
    }

    impl Write for Full {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            self.0.write(buf)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn after_a_full_disk_a_file_is_never_finished() {
        let Ok(device) = std::fs::OpenOptions::new().write(true).open("/dev/full") else {
            eprintln!("skipped: needs /dev/full");
            return;
        };
        let mut file = StagedFile::new("a".to_owned(), "/dev/full".to_owned(), Box::new(Full(device)));
        file.write_all(&[1; 10]).expect("gathered only");
        let error = file.write_all(&vec![2; BUFFER_BYTES]).expect_err("no room");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        file.write_all(&[3; 10]).expect_err("there is a hole before it");
        let error = file.finish().expect_err("there is a hole in it");
        assert_eq!((error.code(), error.place()), (Code::StorageWrite, Some("/dev/full")));
        assert!(error.next().is_some_and(|help| help.contains("bytes left")), "{error:?}");
    }
}
