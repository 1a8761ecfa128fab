//! `status/`: what tasks report about themselves.

use crate::format::{self, FORMAT_VERSION, as_optional_text};
use crate::run_dir::write_atomically;
use crate::updates::UpdateCount;
use phalanx_base::{Result, TaskId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The directory of status files: `worker-2.json` while the task runs, `worker-2.end` when it fails, `worker-2.placement` if it
/// creates variables.
#[derive(Clone, Debug)]
pub struct StatusDir(PathBuf);

/// What a task reports while it runs. A missing value is unknown, or is not reported by tasks of that role.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct TaskStatus {
    /// The version of the format: [`FORMAT_VERSION`], or 0 for files from before it was written.
    pub format_version: u32,
    /// The task.
    #[serde(with = "as_optional_text")]
    pub task: Option<TaskId>,
    /// The phase of the job.
    pub phase: Option<TaskPhase>,
    /// Steps that this trainer has computed.
    pub steps: Option<u64>,
    /// Steps per second of this trainer.
    pub steps_per_s: Option<f64>,
    /// Whether the trainers make every step together, so that the job's rate is that of one of them.
    pub in_sync: Option<bool>,
    /// Examples per second of this trainer.
    pub examples_per_s: Option<f64>,
    /// Committed steps of the job.
    pub global_step: Option<u64>,
    /// Steps that others committed between two steps of this trainer.
    pub lag: Option<u64>,
    /// The loss of the newest step.
    pub loss: Option<f64>,
    /// The global step at which the job ends.
    pub max_steps: Option<u64>,
    /// Whether the chief has initialized this server.
    pub ready: Option<bool>,
    /// Gradients that were too old for their round.
    pub stale: Option<u64>,
    /// Updates that were received again.
    pub repeats: Option<u64>,
    /// Bytes of variables and tables on this server.
    pub bytes: Option<u64>,
    /// The first variables on this server.
    pub variables: Option<Vec<Holding>>,
    /// The first tables on this server.
    pub tables: Option<Vec<Holding>>,
    /// Exchanges that this server has answered.
    pub exchanges: Option<u64>,
    /// Exchanges per second.
    pub exchanges_per_s: Option<f64>,
    /// Exchanges with gradients per second.
    pub pushes_per_s: Option<f64>,
    /// Bytes of gradients and ids that this server has received.
    pub bytes_in: Option<u64>,
    /// Bytes of values that this server has sent.
    pub bytes_out: Option<u64>,
    /// Bytes received per second.
    pub bytes_in_per_s: Option<f64>,
    /// Bytes sent per second.
    pub bytes_out_per_s: Option<f64>,
    /// The mean time of an exchange, in microseconds.
    pub mean_micros: Option<f64>,
    /// The longest time of an exchange, in microseconds.
    pub max_micros: Option<u64>,
    /// The updates of this trainer that every server has acknowledged.
    pub acknowledged: Option<UpdateCount>,
    /// The updates that this server has.
    pub applied: Option<Vec<UpdateCount>>,
}

/// The phases of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum TaskPhase {
    Forming,
    Running,
    Ending,
    Over,
    #[serde(other)]
    Unknown,
}

/// A variable or a table on a parameter server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Holding {
    /// Its name.
    pub name: String,
    /// The elements of a variable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elements: Option<u64>,
    /// The rows of a table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// Its size in memory.
    pub bytes: u64,
}

/// Why a task failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct TaskFailure {
    /// The version of the format: [`FORMAT_VERSION`], or 0 for files from before it was written.
    #[serde(default)]
    pub format_version: u32,
    /// How often the task had been started, from 1.
    pub attempt: u32,
    /// The number of its error code.
    pub code: u32,
    /// Whether the task failed only because the chief reported that the job failed.
    pub relayed: bool,
}

impl TaskStatus {
    /// A status that contains nothing but the task.
    #[must_use]
    pub fn new(task: TaskId) -> Self {
        Self { format_version: FORMAT_VERSION, task: Some(task), ..Self::default() }
    }

    /// The status as the object in the file: without keys whose value is missing.
    #[must_use]
    pub fn to_json(&self) -> Value {
        // Plain fields always serialize.
        let mut object = serde_json::to_value(self).unwrap_or_default();
        if let Some(entries) = object.as_object_mut() {
            entries.retain(|_, value| !value.is_null());
        }
        object
    }
}

impl StatusDir {
    /// The directory at `path`, whether it exists or not.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The directory itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    fn file(&self, task: TaskId, suffix: &str) -> PathBuf {
        self.0.join(format!("{}-{}.{suffix}", task.role, task.index))
    }

    /// Replaces the status of a task.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, task: TaskId, status: &TaskStatus) -> std::io::Result<()> {
        write_atomically(&self.file(task, "json"), &status.to_json().to_string())
    }

    /// When the status of a task was written; `None` if there is none.
    #[must_use]
    pub fn written(&self, task: TaskId) -> Option<SystemTime> {
        std::fs::metadata(self.file(task, "json")).and_then(|about| about.modified()).ok()
    }

    /// Reads the status of a task and the time at which it was written; `None` if there is none
    /// or if it is damaged.
    ///
    /// # Errors
    /// [`phalanx_base::Code::DataFormat`] if a newer version of Phalanx wrote it.
    pub fn read(&self, task: TaskId) -> Result<Option<(TaskStatus, SystemTime)>> {
        let Some(written) = self.written(task) else { return Ok(None) };
        Ok(format::read(&self.file(task, "json"))?.map(|status| (status, written)))
    }

    /// Leaves the reason for a task's failure for the launcher.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_failure(&self, task: TaskId, failure: &TaskFailure) -> std::io::Result<()> {
        write_atomically(&self.file(task, "end"), &serde_json::to_string(failure)?)
    }

    /// The reason that the task left; `None` if there is none that can be read.
    #[must_use]
    pub fn read_failure(&self, task: TaskId) -> Option<TaskFailure> {
        format::read(&self.file(task, "end")).ok().flatten()
    }

    /// The tasks that have reported a status: those that took part in the job.
    #[must_use]
    pub fn joined(&self) -> BTreeSet<TaskId> {
        let entries = std::fs::read_dir(&self.0).into_iter().flatten().flatten();
        let task = |name: &str| {
            let (role, index) = name.strip_suffix(".json")?.split_once('-')?;
            format!("{role}/{index}").parse().ok()
        };
        entries.filter_map(|entry| task(entry.file_name().to_str()?)).collect()
    }

    /// Removes the files of an earlier run.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn clear(&self) -> std::io::Result<()> {
        for entry in std::fs::read_dir(&self.0)?.flatten() {
            let _ = std::fs::remove_file(entry.path());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_base::Code;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_tasks_report_is_read_back_and_missing_values_have_no_key() {
        let dir = tempfile::tempdir().unwrap();
        let status_dir = StatusDir::at(dir.path());
        let task: TaskId = "worker/1".parse().unwrap();
        assert!(status_dir.read(task).unwrap().is_none() && status_dir.joined().is_empty());
        let status = TaskStatus { phase: Some(TaskPhase::Running), loss: Some(0.5), ..TaskStatus::new(task) };
        let text = r#"{"format_version":1,"task":"worker/1","phase":"running","loss":0.5}"#;
        assert_eq!(status.to_json().to_string(), text);
        status_dir.write(task, &status).unwrap();
        assert_eq!(status_dir.read(task).unwrap().unwrap().0, status);
        let path = dir.path().join("worker-1.json");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::write(&path, r#"{"task": "worker/1", "phase": "new", "steps": 3, "loss": null}"#).unwrap();
        let older = status_dir.read(task).unwrap().unwrap().0;
        assert_eq!((older.format_version, older.steps, older.loss), (0, Some(3), None));
        std::fs::write(&path, r#"{"format_version": 9}"#).unwrap();
        assert_eq!(status_dir.read(task).unwrap_err().code(), Code::DataFormat);
        assert_eq!(status_dir.joined(), BTreeSet::from([task]));
    }
}
