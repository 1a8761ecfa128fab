//! A lock on a directory, for its writers.

use crate::{Dir, fault};
use phalanx_base::Result;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The result of an attempt to lock a directory.
#[derive(Debug)]
pub enum Locked {
    /// It is locked now, until this is dropped or the process ends.
    Held(DirLock),
    /// Another process has locked it; this is the owner that process gave.
    Taken(String),
    /// There are no locks here: the directory is not in a local file system, or its file system knows none.
    Unsupported,
}

/// A locked directory. The operating system lets go of it when the process ends, however that happens.
#[derive(Debug)]
pub struct DirLock {
    file: File,
    path: PathBuf,
}

impl Dir {
    /// Locks the directory by its file `name`, which then contains `owner`. The file remains when the lock is released:
    /// removing it would let two processes lock two files of the same name.
    ///
    /// ```
    /// use phalanx_storage::{Dir, Locked};
    /// let folder = tempfile::tempdir()?;
    /// let dir = Dir::local(folder.path());
    /// let Locked::Held(lock) = dir.lock("lock", "process 1")? else { panic!("nobody has it") };
    /// assert!(matches!(dir.lock("lock", "process 2")?, Locked::Taken(owner) if owner == "process 1"));
    /// drop(lock);
    /// assert!(matches!(dir.lock("lock", "process 2")?, Locked::Held(_)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn lock(&self, name: &str, owner: &str) -> Result<Locked> {
        let Some(path) = self.local_path(name) else { return Ok(Locked::Unsupported) };
        self.create_all()?;
        let failed = |error: &std::io::Error| fault::write("lock the directory", &path.display().to_string(), error);
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = options.map_err(|error| failed(&error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut owner = String::new();
                // Whoever has it may be writing this very moment: what cannot be read is left out.
                let _ = file.take(4096).read_to_string(&mut owner);
                return Ok(Locked::Taken(owner));
            }
            Err(TryLockError::Error(_)) => return Ok(Locked::Unsupported),
        }
        let written = file.set_len(0).and_then(|()| file.seek(SeekFrom::Start(0)));
        written.and_then(|_| file.write_all(owner.as_bytes())).map_err(|error| failed(&error))?;
        Ok(Locked::Held(DirLock { file, path }))
    }
}

impl DirLock {
    /// Whether the locked file is still in the directory. It is not when somebody has deleted the directory.
    #[must_use]
    pub fn is_in_place(&self) -> bool {
        let identity = |meta: std::fs::Metadata| (meta.dev(), meta.ino());
        let there = |path: &Path| std::fs::metadata(path).map(identity).ok();
        there(&self.path).is_some_and(|there| self.file.metadata().map(identity).is_ok_and(|own| own == there))
    }
}
