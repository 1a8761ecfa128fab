//! What a launcher leaves in a run directory, for people, `phalanx status` and the page.
//!
//! Under `logs/`: `job.json` (what was launched), `events.jsonl` (what happened, a line each), `worker-2.log` (a task's output,
//! each line behind its time), `status/worker-2.json` (what a task says of itself, see [`STATUS_DIR`]), `status/worker-2.end`
//! (why it failed), `lock` (which launcher is at work). Only their owner may read them.

use crate::clock::now_ms;
use crate::{Exit, Layout};
use phalanx_base::{Code, Error, Result, TaskId};
use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Tells tasks where to write what they have to say of themselves: rate, lag, what a server holds.
pub const STATUS_DIR: &str = "PHALANX_STATUS_DIR";

/// The files of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDir {
    root: PathBuf,
}

impl RunDir {
    /// The run at `root`, whether there is one or not.
    #[must_use]
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The directory itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where the launcher writes.
    #[must_use]
    pub fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    /// Where tasks say how they are.
    #[must_use]
    pub fn status(&self) -> PathBuf {
        self.logs().join("status")
    }

    /// What was launched.
    #[must_use]
    pub fn job_file(&self) -> PathBuf {
        self.logs().join("job.json")
    }

    /// What happened.
    #[must_use]
    pub fn events_file(&self) -> PathBuf {
        self.logs().join("events.jsonl")
    }

    /// A task's output.
    #[must_use]
    pub fn log_of(&self, task: TaskId) -> PathBuf {
        self.logs().join(format!("{}-{}.log", task.role, task.index))
    }
}

/// What happened to a job or one of its tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happened {
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// Which kind of thing.
    pub kind: Kind,
    /// To whom; `None` for the job.
    pub task: Option<TaskId>,
    /// Which life of the task, from 1; 0 for the job.
    pub attempt: u32,
    /// The task's process, where one just started.
    pub pid: Option<u32>,
    /// The end of its process, where one just ended.
    pub exit: Option<Exit>,
    /// How the job ended, where it just did.
    pub outcome: Option<Outcome>,
    /// In words, for people: nothing is decided by them.
    pub text: String,
}

/// How a job ended, as `events.jsonl` says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The chief succeeded.
    Succeeded,
    /// A task failed.
    Failed,
    /// Somebody stopped it.
    Stopped,
}

impl Outcome {
    const ALL: [Self; 3] = [Self::Succeeded, Self::Failed, Self::Stopped];

    /// As files have it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }

    /// Reads what [`Outcome::as_str`] wrote; `None` for anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == text)
    }
}

/// Kinds of [`Happened`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    Launched,
    Started,
    Exited,
    Restarting,
    Told,
    Killed,
    GivenUp,
    Finished,
}

impl Kind {
    const ALL: [Self; 8] = [
        Self::Launched,
        Self::Started,
        Self::Exited,
        Self::Restarting,
        Self::Told,
        Self::Killed,
        Self::GivenUp,
        Self::Finished,
    ];

    /// Reads what [`Kind::as_str`] wrote; `None` for a kind that this build does not know.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == text)
    }

    /// As files have it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Launched => "launched",
            Self::Started => "started",
            Self::Exited => "exited",
            Self::Restarting => "restarting",
            Self::Told => "told",
            Self::Killed => "killed",
            Self::GivenUp => "given-up",
            Self::Finished => "finished",
        }
    }
}

impl Happened {
    /// Something that happens now.
    #[must_use]
    pub fn now(kind: Kind, task: Option<TaskId>, attempt: u32, text: impl Into<String>) -> Self {
        Self { at_ms: now_ms(), kind, task, attempt, pid: None, exit: None, outcome: None, text: text.into() }
    }

    /// One object, as it stands in `events.jsonl`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut object = json!({ "at": self.at_ms, "kind": self.kind.as_str(), "text": self.text });
        if let Some(task) = self.task {
            object["task"] = json!(task.to_string());
            object["attempt"] = json!(self.attempt);
        }
        if let Some(pid) = self.pid {
            object["pid"] = json!(pid);
        }
        if let Some(exit) = &self.exit {
            object["exit"] = json!(exit.code());
        }
        if let Some(outcome) = self.outcome {
            object["outcome"] = json!(outcome.as_str());
        }
        object
    }
}

/// What `job.json` says; never the token.
pub(crate) fn describe(layout: &Layout, program: &[String], model_dir: &Path) -> Value {
    let cluster: Value = serde_json::from_str(&layout.cluster().to_json().to_string()).unwrap_or_default();
    let tasks = layout.tasks().iter().map(|placed| {
        let address = layout.cluster().task_address(placed.job, placed.task.index).unwrap_or("");
        let node = layout.node_names().get(placed.node).cloned().unwrap_or_default();
        json!({ "task": placed.task.to_string(), "node": node, "address": address })
    });
    let directory = std::env::current_dir().map(|path| path.display().to_string()).unwrap_or_default();
    json!({
        "program": program,
        "directory": directory,
        "host": host(),
        "launcher_pid": std::process::id(),
        "started": now_ms(),
        "version": env!("CARGO_PKG_VERSION"),
        "model_dir": model_dir.display().to_string(),
        "cluster": cluster,
        "tasks": tasks.collect::<Vec<_>>(),
    })
}

/// Only its owner may read what is below: arguments and output of a program may contain secrets.
const PRIVATE_DIR: u32 = 0o700;
const PRIVATE_FILE: u32 = 0o600;

impl RunDir {
    /// Makes the directories that the launcher and its tasks write to. Only their owner may look into them.
    ///
    /// # Errors
    /// When they cannot be made.
    pub fn create(&self) -> Result<()> {
        let create = || {
            std::fs::create_dir_all(&self.root)?;
            for dir in [self.logs(), self.status()] {
                match std::fs::DirBuilder::new().mode(PRIVATE_DIR).create(&dir) {
                    Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && dir.is_dir() => {
                        // Made by an older launcher, perhaps; where it is not ours, its owner decides.
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
            .help("choose another with --run-dir")
    }

    /// Reserves the directory for this launcher, until the value is dropped or the process ends.
    ///
    /// # Errors
    /// When another launcher has it; that one is named.
    pub(crate) fn lock(&self) -> Result<RunLock> {
        let path = self.logs().join("lock");
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).read(true).write(true).mode(PRIVATE_FILE);
        let mut file = options.open(&path).map_err(|error| self.not_writable(error))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut holder = String::new();
                let _ = Read::by_ref(&mut file).take(1024).read_to_string(&mut holder);
                let holder =
                    if holder.is_empty() { "a launcher that has not said who it is".to_owned() } else { holder };
                Err(Error::new(Code::SecondLauncher, "another launcher uses this run directory")
                    .at(self.root.display().to_string())
                    .because(format!("it is {}", holder.trim()))
                    .help("stop that one, or choose another directory with --run-dir"))
            }
            // A file system without locks: nobody is kept out, as before there were any.
            Err(_) => Ok(RunLock { _file: file }),
            Ok(()) => {
                let text = format!("process {} on {}\n", std::process::id(), host());
                let written = file.set_len(0).and_then(|()| file.write_all(text.as_bytes()));
                written.map_err(|error| self.not_writable(error))?;
                Ok(RunLock { _file: file })
            }
        }
    }
}

/// A run directory that is this launcher's alone.
#[derive(Debug)]
pub(crate) struct RunLock {
    _file: File,
}

/// This machine's name.
pub(crate) fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

pub(crate) fn append(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(PRIVATE_FILE).open(path)
}

/// Never half written for a reader.
pub(crate) fn write_whole(path: &Path, text: &str) -> std::io::Result<()> {
    let aside = path.with_extension("tmp");
    let _old = std::fs::remove_file(&aside);
    let mut file = OpenOptions::new().create_new(true).write(true).mode(PRIVATE_FILE).open(&aside)?;
    file.write_all(text.as_bytes())?;
    std::fs::rename(&aside, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_launcher_is_refused_and_told_who_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::at(dir.path().join("run"));
        run.create().unwrap();
        let first = run.lock().unwrap();
        let error = run.lock().unwrap_err();
        assert_eq!(error.code(), Code::SecondLauncher);
        let first_is = format!("process {} on {}", std::process::id(), host());
        assert!(error.to_string().contains(&first_is), "{error}");
        drop(first);
        run.lock().unwrap();
    }
}
