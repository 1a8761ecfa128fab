//! What a launcher leaves in a run directory, for people, `phalanx status` and the page.
//!
//! Under `logs/`: `job.json` (what was launched), `events.jsonl` (what happened, a line each), `worker-2.log` (a task's output,
//! each line behind its time), `status/worker-2.json` (what a task says of itself, see [`STATUS_DIR`]).

use crate::clock::{now_ms, stamp};
use crate::{Exit, Layout};
use phalanx_base::{Code, Context, Error, Result, TaskId};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
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
    /// In words.
    pub text: String,
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
    Finished,
}

impl Kind {
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
            Self::Finished => "finished",
        }
    }
}

impl Happened {
    /// Something that happens now.
    #[must_use]
    pub fn now(kind: Kind, task: Option<TaskId>, attempt: u32, text: impl Into<String>) -> Self {
        Self { at_ms: now_ms(), kind, task, attempt, pid: None, exit: None, text: text.into() }
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
        object
    }
}

/// Writes the files of a run.
#[derive(Debug)]
pub(crate) struct Journal {
    run: RunDir,
    events: File,
    logs: BTreeMap<TaskId, BufWriter<File>>,
}

impl Journal {
    /// Makes the directories and says what is launched.
    pub(crate) fn open(run: &RunDir, job: &Value) -> Result<Self> {
        let at = run.logs().display().to_string();
        let wrong = |error: std::io::Error| {
            Error::new(Code::StorageWrite, "the run directory cannot be written")
                .at(at.clone())
                .because(error)
                .help("choose another with --run-dir")
        };
        std::fs::create_dir_all(run.status()).map_err(wrong)?;
        // What a former run of the same directory said of itself is not true any more.
        for old in std::fs::read_dir(run.status()).map_err(wrong)?.flatten() {
            let _ = std::fs::remove_file(old.path());
        }
        let text = serde_json::to_string_pretty(job).context(Code::Internal, "the job cannot be described")?;
        write_whole(&run.job_file(), &text).map_err(wrong)?;
        let events = append(&run.events_file()).map_err(wrong)?;
        Ok(Self { run: run.clone(), events, logs: BTreeMap::new() })
    }

    /// Written at once, so that whoever watches the file sees it.
    pub(crate) fn event(&mut self, event: &Happened) -> Result<()> {
        let line = format!("{}\n", event.to_json());
        self.events.write_all(line.as_bytes()).context(Code::StorageWrite, "events cannot be written")
    }

    pub(crate) fn line(&mut self, task: TaskId, at_ms: u64, text: &str) -> Result<()> {
        let wrong = "a log cannot be written";
        let file = match self.logs.entry(task) {
            std::collections::btree_map::Entry::Occupied(file) => file.into_mut(),
            std::collections::btree_map::Entry::Vacant(empty) => {
                let file = append(&self.run.log_of(task)).context(Code::StorageWrite, wrong)?;
                empty.insert(BufWriter::new(file))
            }
        };
        writeln!(file, "{} {text}", stamp(at_ms)).context(Code::StorageWrite, wrong)
    }

    pub(crate) fn flush(&mut self) -> Result<()> {
        let mut logs = self.logs.values_mut();
        logs.try_for_each(Write::flush).context(Code::StorageWrite, "a log cannot be written")
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
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    json!({
        "program": program,
        "directory": directory,
        "host": host.trim(),
        "launcher_pid": std::process::id(),
        "started": now_ms(),
        "version": env!("CARGO_PKG_VERSION"),
        "model_dir": model_dir.display().to_string(),
        "cluster": cluster,
        "tasks": tasks.collect::<Vec<_>>(),
    })
}

fn append(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// Never half written for a reader.
fn write_whole(path: &Path, text: &str) -> std::io::Result<()> {
    let aside = path.with_extension("tmp");
    std::fs::write(&aside, text)?;
    std::fs::rename(&aside, path)
}
