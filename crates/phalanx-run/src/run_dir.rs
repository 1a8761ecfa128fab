//! The directory of a run, and which launcher owns it.

use crate::StatusDir;
use phalanx_base::{Code, Error, Result, TaskId};
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The directory of one run. The launcher's files are below `logs/`:
///
/// | file | contents |
/// | --- | --- |
/// | `job.json` | [`JobFile`](crate::JobFile): what was launched |
/// | `events.jsonl` | [`Event`](crate::Event)s, one per line |
/// | `worker-2.log` | a task's output, each line after its time |
/// | `status/` | [`StatusDir`]: what tasks report about themselves, and where the variables lie ([`Placement`](crate::Placement)) |
/// | `usage.json` | [`JobUsage`](crate::JobUsage): what the processes of the job used, once it is over |
/// | `lock` | the process of the launcher |
///
/// Only the owner may read them, because arguments and output of a program may contain secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDir {
    root: PathBuf,
}

const PRIVATE_DIR: u32 = 0o700;
const PRIVATE_FILE: u32 = 0o600;

impl RunDir {
    /// The run at `root`, whether it exists or not.
    #[must_use]
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The directory itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The directory that the launcher writes.
    #[must_use]
    pub fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    /// The directory in which tasks report their status.
    #[must_use]
    pub fn status(&self) -> StatusDir {
        StatusDir::at(self.logs().join("status"))
    }

    /// The path of `job.json`.
    #[must_use]
    pub fn job_file(&self) -> PathBuf {
        self.logs().join("job.json")
    }

    /// The path of `events.jsonl`.
    #[must_use]
    pub fn events_file(&self) -> PathBuf {
        self.logs().join("events.jsonl")
    }

    /// The path of `usage.json`.
    #[must_use]
    pub fn usage_file(&self) -> PathBuf {
        self.logs().join("usage.json")
    }

    /// The path of a task's log.
    #[must_use]
    pub fn log_of(&self, task: TaskId) -> PathBuf {
        self.logs().join(format!("{}-{}.log", task.role, task.index))
    }

    /// Creates the directories that the launcher and its tasks write to. Only the owner may list them.
    ///
    /// # Errors
    /// If a directory cannot be created.
    pub fn create(&self) -> Result<()> {
        let create = || {
            std::fs::create_dir_all(&self.root)?;
            for dir in [self.logs(), self.status().path().to_owned()] {
                match std::fs::DirBuilder::new().mode(PRIVATE_DIR).create(&dir) {
                    Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && dir.is_dir() => {
                        // An older launcher may have created it; if it is not ours, its owner decides.
                        let _ = std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(PRIVATE_DIR));
                    }
                    made => made?,
                }
            }
            Ok(())
        };
        create().map_err(|error| self.not_writable(error))
    }

    pub(crate) fn not_writable(&self, error: std::io::Error) -> Error {
        Error::new(Code::StorageWrite, "the run directory cannot be written")
            .at(self.logs().display().to_string())
            .because(error)
            .help("choose another directory with --run-dir")
    }

    /// Reserves the directory for this launcher, until the value is dropped or the process ends.
    ///
    /// # Errors
    /// If another launcher owns it; the error names that launcher.
    pub(crate) fn lock(&self) -> Result<RunLock> {
        let path = self.logs().join("lock");
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).read(true).write(true).mode(PRIVATE_FILE);
        let mut file = options.open(&path).map_err(|error| self.not_writable(error))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut holder = String::new();
                let _ = Read::by_ref(&mut file).take(1024).read_to_string(&mut holder);
                let holder = if holder.is_empty() { "an unknown process" } else { holder.trim() };
                Err(Error::new(Code::SecondLauncher, "another launcher uses this run directory")
                    .at(self.root.display().to_string())
                    .because(format!("it is {holder}"))
                    .help("stop that launcher, or choose another directory with --run-dir"))
            }
            // The file system has no locks: nothing keeps a second launcher out.
            Err(_) => Ok(RunLock { _file: file }),
            Ok(()) => {
                let text = format!("process {} on {}\n", std::process::id(), host_name());
                let written = file.set_len(0).and_then(|()| file.write_all(text.as_bytes()));
                written.map_err(|error| self.not_writable(error))?;
                Ok(RunLock { _file: file })
            }
        }
    }
}

/// Exclusive ownership of a run directory.
#[derive(Debug)]
pub(crate) struct RunLock {
    _file: File,
}

/// The name of this machine.
#[must_use]
pub fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

/// Opens a file to append to it. Only the owner may read it.
pub(crate) fn append(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(PRIVATE_FILE).open(path)
}

/// Replaces a file, so that a reader sees either the old contents or the new ones. Only the owner may read it.
pub(crate) fn write_atomically(path: &Path, text: &str) -> std::io::Result<()> {
    // Threads of a task write files that differ in their extensions only.
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    let temporary = path.with_file_name(name);
    let _old = std::fs::remove_file(&temporary);
    let mut file = OpenOptions::new().create_new(true).write(true).mode(PRIVATE_FILE).open(&temporary)?;
    file.write_all(text.as_bytes())?;
    std::fs::rename(&temporary, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_with_the_same_stem_are_written_at_the_same_time() {
        let dir = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for (name, text) in [("worker-1.json", "status"), ("worker-1.placement", "where the variables lie")] {
                let path = dir.path().join(name);
                scope.spawn(move || {
                    for _ in 0..2000 {
                        write_atomically(&path, text).unwrap();
                        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
                    }
                });
            }
        });
    }

    #[test]
    fn a_second_launcher_is_refused_and_told_who_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::at(dir.path().join("run"));
        run.create().unwrap();
        let first = run.lock().unwrap();
        let error = run.lock().unwrap_err();
        assert_eq!(error.code(), Code::SecondLauncher);
        let first_is = format!("process {} on {}", std::process::id(), host_name());
        assert!(error.to_string().contains(&first_is), "{error}");
        drop(first);
        run.lock().unwrap();
    }
}
