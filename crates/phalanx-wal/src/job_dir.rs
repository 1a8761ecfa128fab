//! The folder of a job's logs: only its user may read it, a lock says that the job lives, and it goes with the job.

use phalanx_base::{Code, Context, Error, Result};
use rustix::fs::{FlockOperation, flock};
use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A folder of logs that no process uses is kept for so long for an operator who starts a server again.
const KEPT: Duration = Duration::from_secs(24 * 3600);

const JOB: &str = "job-";
const OWN: &str = "own-";
const LOCK: &str = "lock";

/// Where jobs keep their logs by default: memory that outlives a process.
#[must_use]
pub fn default_base() -> &'static Path {
    Path::new("/dev/shm")
}

/// The folder of one launched job. Dropping it removes the folder and everything in it.
#[derive(Debug)]
pub struct JobDir {
    path: PathBuf,
    _lock: File,
}

impl JobDir {
    /// Creates the folder `base/phalanx-UID/job-NAME`, after it has removed the folders of jobs that are gone.
    ///
    /// ```
    /// let base = std::env::temp_dir();
    /// let job = phalanx_wal::JobDir::create(&base, "2f6a")?;
    /// let path = job.path().to_owned();
    /// assert!(path.is_dir());
    /// drop(job);
    /// assert!(!path.exists());
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// When it cannot be created, or another user has a folder of that name.
    pub fn create(base: &Path, name: &str) -> Result<Self> {
        let own = users_folder(base)?;
        // Held until the new folder has its lock: cleaning must not find it without.
        let _all = lock(&own, FlockOperation::LockExclusive)?;
        clean(&own);
        let path = own.join(format!("{JOB}{name}"));
        make(&path)?;
        let lock = lock(&path, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Self { path, _lock: lock })
    }

    /// Returns its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for JobDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Creates the folder of a job that nobody has launched: its servers, which an operator starts again, share it by name.
///
/// # Errors
/// As [`JobDir::create`].
pub fn unlaunched(base: &Path, name: &str) -> Result<PathBuf> {
    let path = users_folder(base)?.join(format!("{OWN}{name}"));
    make(&path)?;
    Ok(path)
}

/// The folder of one server's log. While this exists, no other process gets it.
#[derive(Debug)]
pub struct TaskDir {
    path: PathBuf,
    _lock: File,
}

impl TaskDir {
    /// Opens the folder `name` of a job's folder, or creates it.
    ///
    /// # Errors
    /// When another process uses it, or it cannot be created.
    pub fn open(job: &Path, name: &str) -> Result<Self> {
        let path = job.join(name);
        make(&path)?;
        let lock = lock(&path, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Self { path, _lock: lock })
    }

    /// Returns its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes everything in it: the job is over.
    pub fn remove(&self) {
        let _ = std::fs::remove_dir_all(&self.path);
        // The last server of a job that nobody launched removes that job's folder; others find it in use.
        if let Some(job) = self.path.parent().filter(|job| has_prefix(job, OWN)) {
            let _ = std::fs::remove_dir(job);
        }
    }
}

/// Returns the folder of this user's jobs, which nobody else can have made or can read.
fn users_folder(base: &Path) -> Result<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let path = base.join(format!("phalanx-{user}"));
    make(&path)?;
    let found = std::fs::symlink_metadata(&path).map_err(|error| cannot(&path).because(error))?;
    if !found.is_dir() || found.uid() != user || found.mode() & 0o077 != 0 {
        return Err(cannot(&path)
            .because("it is no folder of this user that others cannot enter")
            .help("remove it, or choose another place with PHALANX_WAL_DIR"));
    }
    Ok(path)
}

fn make(path: &Path) -> Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(cannot(path).because(error)),
        _ => Ok(()),
    }
}

fn lock(folder: &Path, how: FlockOperation) -> Result<File> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(folder.join(LOCK));
    let file = file.map_err(|error| cannot(folder).because(error))?;
    flock(&file, how).context(Code::DuplicateTask, format!("another process uses {}", folder.display()))?;
    Ok(file)
}

/// Removes the folders of jobs that are gone. What cannot be removed stays for the next time.
fn clean(own: &Path) {
    for entry in std::fs::read_dir(own).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_gone = match () {
            () if has_prefix(&path, JOB) => lock(&path, FlockOperation::NonBlockingLockExclusive).is_ok(),
            () if has_prefix(&path, OWN) => is_deserted(&path),
            () => false,
        };
        if is_gone {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

/// Whether no server of a job that nobody launched has been here for long.
fn is_deserted(job: &Path) -> bool {
    let is_old = |path: &Path| {
        let changed = std::fs::metadata(path).and_then(|found| found.modified()).ok();
        changed.and_then(|at| at.elapsed().ok()).is_some_and(|age| age > KEPT)
    };
    let tasks = std::fs::read_dir(job).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut tasks = tasks.filter(|path| path.is_dir());
    is_old(job) && tasks.all(|task| is_old(&task) && lock(&task, FlockOperation::NonBlockingLockExclusive).is_ok())
}

fn has_prefix(path: &Path, prefix: &str) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix))
}

fn cannot(path: &Path) -> Error {
    Error::new(Code::StorageWrite, "the folder of a write-ahead log cannot be used").at(path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_folder_is_private_and_goes_with_its_job_and_a_dead_jobs_folder_with_the_next_one() {
        let base = tempfile::tempdir().unwrap();
        let job = JobDir::create(base.path(), "a").unwrap();
        let path = job.path().to_owned();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        let dead = path.with_file_name("job-dead");
        std::fs::create_dir_all(dead.join("ps-0")).unwrap();
        let unlaunched = unlaunched(base.path(), "b").unwrap();
        let other = JobDir::create(base.path(), "c").unwrap();
        assert!(path.is_dir() && unlaunched.is_dir() && !dead.exists(), "the living stay");
        drop((job, other));
        assert!(!path.exists());
    }

    #[test]
    fn one_process_has_a_servers_folder_and_the_last_server_removes_the_jobs() {
        let base = tempfile::tempdir().unwrap();
        let job = unlaunched(base.path(), "b").unwrap();
        let first = TaskDir::open(&job, "ps-0").unwrap();
        assert_eq!(TaskDir::open(&job, "ps-0").unwrap_err().code(), Code::DuplicateTask);
        drop(first);
        let (first, second) = (TaskDir::open(&job, "ps-0").unwrap(), TaskDir::open(&job, "ps-1").unwrap());
        first.remove();
        assert!(job.is_dir() && second.path().is_dir());
        second.remove();
        assert!(!job.exists());
    }

    #[test]
    fn a_folder_that_others_can_enter_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let own = base.path().join(format!("phalanx-{}", rustix::process::geteuid().as_raw()));
        std::fs::create_dir(&own).unwrap();
        std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o755)).unwrap();
        let error = JobDir::create(base.path(), "a").unwrap_err();
        assert!(error.to_string().contains("others cannot enter"), "{error}");
    }
}
