//! The lock that gives a run directory to one job at a time.

use crate::Server;
use phalanx_base::{Code, Error, Result};
use phalanx_storage::{Dir, DirLock, Locked};
use std::time::{Duration, Instant};

const FILE: &str = "phalanx.lock";

/// How long a former chief of the same job may take to end.
const HANDOVER: Duration = Duration::from_secs(5);

/// The right to write checkpoints into a run directory. It ends with the process. Readers need none.
pub(crate) struct RunLock {
    dir: Dir,
    owner: String,
    /// `None` where the storage has no locks.
    lock: Option<DirLock>,
    /// How often the directory was found deleted.
    deleted: u64,
}

impl RunLock {
    /// Locks the directory for this job. A chief that was restarted waits for its former incarnation to end.
    ///
    /// # Errors
    /// When another job has locked the directory, or it cannot be written.
    pub(crate) fn take(dir: &Dir, server: &Server) -> Result<Self> {
        let job = format!("job {}", server.config().job_id());
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let (task, incarnation) = (server.task(), server.client_options().incarnation.0);
        let owner = format!(
            "{job}\nprocess {} on {}\n{task}, incarnation {incarnation:016x}\n",
            std::process::id(),
            host.trim()
        );
        let until = Instant::now() + HANDOVER;
        loop {
            let lock = match dir.lock(FILE, &owner)? {
                Locked::Held(lock) => Some(lock),
                Locked::Unsupported => None,
                Locked::Taken(other) if other.lines().next() == Some(&job) && Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(50));
                    continue;
                }
                Locked::Taken(other) => return Err(in_use(dir, &other)),
            };
            return Ok(Self { dir: dir.clone(), owner, lock, deleted: 0 });
        }
    }

    /// Checks whether the directory is still there. Where it was deleted, creates and locks it again, and returns a notice to
    /// be logged.
    ///
    /// # Errors
    /// When the directory cannot be created, or another job has locked it now.
    pub(crate) fn renew(&mut self) -> Result<Option<Error>> {
        if self.lock.as_ref().is_none_or(DirLock::is_in_place) {
            return Ok(None);
        }
        match self.dir.lock(FILE, &self.owner)? {
            Locked::Held(lock) => self.lock = Some(lock),
            Locked::Unsupported => self.lock = None,
            Locked::Taken(other) => return Err(in_use(&self.dir, &other)),
        }
        self.deleted += 1;
        let again = if self.deleted == 1 { String::new() } else { format!(" (time {})", self.deleted) };
        Ok(Some(
            Error::new(Code::RunDirDeleted, format!("the run directory was deleted while the job runs{again}"))
                .at(self.dir.location())
                .because("its lock file is gone, and the checkpoints with it")
                .help("it is made again, and the next checkpoint is saved at once; keep other programs off it"),
        ))
    }
}

/// Refuses a run directory that another job than `job` has locked. What a task does before it takes the lock must not disturb
/// that job.
///
/// # Errors
/// When the directory is locked, or cannot be read.
pub fn refuse_if_in_use(dir: &Dir, job: &str) -> Result<()> {
    if dir.size(FILE)?.is_none() {
        return Ok(());
    }
    match dir.lock(FILE, "")? {
        Locked::Taken(other) if other.lines().next() != Some(&format!("job {job}")) => Err(in_use(dir, &other)),
        _ => Ok(()),
    }
}

fn in_use(dir: &Dir, owner: &str) -> Error {
    let owner: Vec<&str> = owner.lines().filter(|line| !line.is_empty()).collect();
    let owner = if owner.is_empty() { "another process".to_owned() } else { owner.join(", ") };
    Error::new(Code::RunDirInUse, "another job trains in this run directory")
        .at(dir.location())
        .because(format!("{owner} has locked it"))
        .help("give this job another model_dir, or end the other one first")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_job_is_refused_with_the_process_of_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let dir = Dir::local(folder.path().join("run"));
        let first = Server::local().unwrap();
        let lock = RunLock::take(&dir, &first).unwrap();
        let Locked::Taken(owner) = dir.lock(FILE, "").unwrap() else { panic!("it is locked") };
        assert!(owner.contains(&format!("process {} on ", std::process::id())), "{owner}");
        let refused = refuse_if_in_use(&dir, "another").unwrap_err();
        assert_eq!(refused.code(), Code::RunDirInUse);
        refuse_if_in_use(&dir, &first.config().job_id()).unwrap();
        assert!(refused.why().unwrap().contains(&std::process::id().to_string()), "{refused}");
        drop(lock);
        refuse_if_in_use(&dir, "another").unwrap();
        RunLock::take(&dir, &first).unwrap();
    }

    #[test]
    fn a_directory_that_was_deleted_is_noticed_once_and_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        let dir = Dir::local(&path);
        let mut lock = RunLock::take(&dir, &Server::local().unwrap()).unwrap();
        assert!(lock.renew().unwrap().is_none());
        for time in 1..3 {
            std::fs::remove_dir_all(&path).unwrap();
            let said = lock.renew().unwrap().expect("it is noticed");
            assert_eq!(said.code(), Code::RunDirDeleted);
            assert_eq!(said.what().contains("time 2"), time == 2, "{said}");
            assert!(lock.renew().unwrap().is_none() && path.is_dir());
        }
    }
}
