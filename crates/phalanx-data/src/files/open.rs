//! Opens one file.

use super::list::split;
use phalanx_base::{Code, Error};
use phalanx_storage::ReadFile;
use std::io::{BufReader, Read, Result, Seek, SeekFrom};

/// What is asked of an object store at once: a request costs as much as a few megabytes.
const REMOTE_BUFFER: usize = 4 << 20;

/// An open file: bytes at any place.
pub(crate) trait OpenFile: Read + Seek + Send {
    /// How many bytes it has.
    fn size(&self) -> Result<u64>;
    /// Whether every read is a request over a network.
    fn is_remote(&self) -> bool;
}

impl OpenFile for ReadFile {
    fn size(&self) -> Result<u64> {
        Self::size(self).map_err(std::io::Error::other)
    }

    fn is_remote(&self) -> bool {
        false
    }
}

struct Remote(BufReader<ReadFile>);

impl Read for Remote {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        self.0.read(buffer)
    }
}

impl Seek for Remote {
    fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        self.0.seek(to)
    }
}

impl OpenFile for Remote {
    fn size(&self) -> Result<u64> {
        OpenFile::size(self.0.get_ref())
    }

    fn is_remote(&self) -> bool {
        true
    }
}

/// Opens a file of the list.
pub(crate) fn open(path: &str) -> phalanx_base::Result<Box<dyn OpenFile>> {
    let opened = split(path).and_then(|(dir, name)| Ok((dir.local_path(&name).is_some(), dir.open_read(&name)?)));
    match opened {
        Ok((true, file)) => Ok(Box::new(file)),
        Ok((false, file)) => Ok(Box::new(Remote(BufReader::with_capacity(REMOTE_BUFFER, file)))),
        Err(error) => Err(Error::new(Code::DataMissing, format!("cannot open {path:?}"))
            .because(error)
            .help("it was there when the files were listed; is it being replaced?")),
    }
}
