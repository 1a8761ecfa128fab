//! The interface of a store of files.

use crate::AppendFile;
use phalanx_base::{Code, Error, Result};
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::SystemTime;

/// A file as a listing shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name in the listed directory.
    pub name: String,
    /// How many bytes it has.
    pub size: u64,
    /// When it was last changed, by the clock of whoever keeps it.
    pub modified: SystemTime,
}

/// What is directly in a directory.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// Files, in no order, temporary ones included.
    pub(crate) files: Vec<Entry>,
    /// Directories, in no order.
    pub(crate) folders: Vec<Folder>,
    /// Names that are not UTF-8, as near as text comes to them.
    pub(crate) odd: Vec<String>,
}

/// A directory in a listing.
#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) name: String,
    /// Whether it is a symbolic link, which a recursive walk must not follow.
    pub(crate) link: bool,
}

/// The bytes of a file that is being staged. Dropped before it is finished, it leaves nothing behind.
pub(crate) trait Sink: Write + Send {
    /// Makes all bytes durable under the staged name.
    fn finish(&mut self) -> Result<()>;
}

/// The bytes of one version of a file, by position.
pub(crate) trait Source: Send + Sync {
    /// Reads at most `buf.len()` bytes; 0 means the end.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize>;

    /// How many bytes there are now.
    fn size(&self) -> io::Result<u64>;
}

/// A tree of files. Keys are names from its root on, already checked; the empty key is the root itself.
pub(crate) trait Store: Send + Sync {
    /// The full location of a key, for people.
    fn place(&self, key: &str) -> String;

    /// Where the key is in the local file system, if it is there.
    fn local_path(&self, _key: &str) -> Option<PathBuf> {
        None
    }

    /// Makes a directory and those above it, where there are directories.
    fn create_all(&self, key: &str) -> Result<()>;

    /// Begins a file under the staged name `key`.
    fn stage(&self, key: &str) -> Result<Box<dyn Sink>>;

    /// Moves a staged file over `to`, durably.
    fn publish(&self, staged: &str, to: &str) -> Result<()>;

    /// Puts a whole file there at once; `staged` is a temporary name it may go over.
    fn write(&self, key: &str, staged: &str, bytes: &[u8]) -> Result<()> {
        let mut sink = self.stage(staged)?;
        sink.write_all(bytes).map_err(|error| crate::fault::write("write the file", &self.place(staged), &error))?;
        sink.finish()?;
        drop(sink);
        self.publish(staged, key).inspect_err(|_| {
            // The first error is the one to report; a leftover is swept later.
            let _ = self.remove(staged);
        })
    }

    /// The whole file, unless it is longer than `limit`; nothing if it is absent.
    fn read(&self, key: &str, limit: u64) -> Result<Option<Vec<u8>>>;

    /// Opens a file; nothing if it is absent.
    fn open(&self, key: &str) -> Result<Option<Box<dyn Source>>>;

    /// How long a file is; nothing if it is absent.
    fn size(&self, key: &str) -> Result<Option<u64>>;

    /// What is directly in a directory. A directory that is absent has nothing in it.
    fn list(&self, key: &str) -> Result<Listing>;

    /// Removes a file, if it is there.
    fn remove(&self, key: &str) -> Result<()>;

    /// Whether [`Store::append`] works.
    fn can_append(&self) -> bool {
        false
    }

    /// Opens a file to add to its end.
    fn append(&self, key: &str) -> Result<AppendFile> {
        let error = Error::new(Code::StorageWrite, "cannot append to the file").at(self.place(key));
        Err(error.because("objects are written once and whole").help("write a new file instead; Roll does it"))
    }
}

/// The error for a file that is longer than its reader allows.
pub(crate) fn too_long(place: String, size: u64, limit: u64) -> Error {
    Error::new(Code::StorageRead, "the file is longer than it may be")
        .at(place)
        .because(format!("it has {size} bytes, and at most {limit} are read"))
        .help("it is probably not the file that was meant; check what wrote it")
}
