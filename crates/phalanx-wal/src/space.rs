//! Where the segments of a log come from.

use crate::Room;
use crate::segment::Segment;
use phalanx_base::{Code, Context, Error, Result};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A source of segments, all of the same size. They outlive the log.
pub trait Space: Send + Sync {
    /// Returns the size of every segment.
    fn segment_bytes(&self) -> usize;

    /// Makes another segment.
    ///
    /// # Errors
    /// When there is no memory for one.
    fn make(&self) -> Result<Arc<Segment>>;

    /// Returns the segments that exist, in any order.
    ///
    /// # Errors
    /// When they cannot be read.
    fn existing(&self) -> Result<Vec<Arc<Segment>>>;
}

/// Segments on the heap, shared by all clones: a simulated process dies, its memory stays.
#[derive(Clone, Debug)]
pub struct Heap {
    size: usize,
    segments: Arc<Mutex<Vec<Arc<Segment>>>>,
}

impl Heap {
    /// Creates a space of segments of `size` bytes.
    #[must_use]
    pub fn new(size: usize) -> Self {
        Self { size, segments: Arc::default() }
    }
}

impl Space for Heap {
    fn segment_bytes(&self) -> usize {
        self.size
    }

    fn make(&self) -> Result<Arc<Segment>> {
        let segment = Arc::new(Segment::heap(self.size));
        self.segments.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&segment));
        Ok(segment)
    }

    fn existing(&self) -> Result<Vec<Arc<Segment>>> {
        Ok(self.segments.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

/// Segments that are files of a folder, such as one in `/dev/shm`.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
    size: usize,
    /// The memory that others may need meanwhile.
    spare: u64,
}

impl Folder {
    /// Uses this folder, which exists and is this log's alone, for segments of `size` bytes. `spare` bytes of the machine's
    /// memory are left to others.
    #[must_use]
    pub fn new(path: &Path, size: usize, spare: u64) -> Self {
        Self { path: path.to_owned(), size, spare }
    }

    fn map(&self, file: &File, path: &Path) -> Result<Arc<Segment>> {
        let segment = Segment::map(file, self.size);
        segment.map(Arc::new).map_err(|error| cannot(path, "be mapped").because(error))
    }
}

impl Space for Folder {
    fn segment_bytes(&self) -> usize {
        self.size
    }

    fn make(&self) -> Result<Arc<Segment>> {
        let room = Room::of(&self.path);
        if room.bytes < self.size as u64 + self.spare {
            let (left, limit) = (room.bytes >> 20, room.limit);
            return Err(full(&self.path).because(format!("{left} MiB are left ({limit})")));
        }
        let number = (0..u32::MAX).find(|number| !self.file(*number).exists());
        let path = self.file(number.unwrap_or(u32::MAX));
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path);
        let file = file.map_err(|error| cannot(&path, "be created").because(error))?;
        // The pages are taken now: one that is missing when it is written to would kill the process.
        if let Err(error) = fallocate(&file, FallocateFlags::empty(), 0, self.size as u64) {
            let _ = std::fs::remove_file(&path);
            let error =
                if error == Errno::NOSPC { full(&self.path) } else { cannot(&path, "be allocated") }.because(error);
            return Err(error);
        }
        self.map(&file, &path)
    }

    fn existing(&self) -> Result<Vec<Arc<Segment>>> {
        let mut segments = Vec::new();
        for entry in std::fs::read_dir(&self.path).context(Code::StorageRead, "a write-ahead log cannot be read")? {
            let path = entry.context(Code::StorageRead, "a write-ahead log cannot be read")?.path();
            if !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX)) {
                continue;
            }
            let file = OpenOptions::new().read(true).write(true).open(&path);
            let file = file.map_err(|error| cannot(&path, "be opened").because(error))?;
            let len = file.metadata().map_err(|error| cannot(&path, "be read").because(error))?.len();
            if len == self.size as u64 {
                segments.push(self.map(&file, &path)?);
            } else {
                // Its process died while it made the file: nothing was written to it.
                let _ = std::fs::remove_file(&path);
            }
        }
        Ok(segments)
    }
}

const PREFIX: &str = "segment-";

impl Folder {
    fn file(&self, number: u32) -> PathBuf {
        self.path.join(format!("{PREFIX}{number:05}"))
    }
}

fn full(path: &Path) -> Error {
    Error::new(Code::LogFull, "there is no memory for the write-ahead log to grow")
        .at(path.display().to_string())
        .help("training pauses until a snapshot is written; free memory on this machine")
}

fn cannot(path: &Path, what: &str) -> Error {
    Error::new(Code::StorageWrite, format!("a segment of the write-ahead log cannot {what}"))
        .at(path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_found_again_and_a_file_that_was_being_made_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let space = Folder::new(folder.path(), 1 << 16, 0);
        space.make().unwrap().set_word(8, 9);
        space.make().unwrap().set_word(8, 7);
        std::fs::write(folder.path().join("segment-00002"), "").unwrap();
        std::fs::write(folder.path().join("lock"), "").unwrap();
        let mut words: Vec<u64> = space.existing().unwrap().iter().map(|segment| segment.word(8)).collect();
        words.sort_unstable();
        assert_eq!(words, [7, 9]);
        assert!(!folder.path().join("segment-00002").exists() && folder.path().join("lock").exists());
    }

    #[test]
    fn without_memory_to_spare_no_segment_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let error = Folder::new(folder.path(), 1 << 16, 1 << 60).make().unwrap_err();
        assert_eq!(error.code(), Code::LogFull);
        assert!(error.to_string().contains("MiB are left"), "{error}");
    }
}
