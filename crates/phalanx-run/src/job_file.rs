//! `job.json`: what was launched.

use crate::format::{self, FORMAT_VERSION, as_text};
use crate::{ProcessIdentity, RunDir, host_name, now_ms};
use phalanx_base::{Result, TaskId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The contents of `job.json`. It never contains the job's token.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct JobFile {
    /// The version of the format: [`FORMAT_VERSION`], or 0 for files from before it was written.
    pub format_version: u32,
    /// The program and its arguments.
    pub program: Vec<String>,
    /// The working directory of the launcher.
    pub directory: String,
    /// The machine on which the launcher runs.
    pub host: String,
    /// The launcher's process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launcher_pid: Option<u32>,
    /// The same, such that no later process with that number is mistaken for it; `None` in older files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launcher: Option<ProcessIdentity>,
    /// When the job was launched, in milliseconds since 1970.
    pub started: u64,
    /// The version of Phalanx.
    pub version: String,
    /// Where the program keeps checkpoints and event files, relative to `directory`.
    pub model_dir: String,
    /// The cluster as in `TF_CONFIG`.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub cluster: Value,
    /// Every task of the job.
    pub tasks: Vec<JobTask>,
}

/// One task of a [`JobFile`].
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct JobTask {
    /// The task.
    #[serde(with = "as_text")]
    pub task: TaskId,
    /// The machine on which it runs; empty if the job runs on one machine.
    #[serde(default)]
    pub node: String,
    /// Where it listens; empty for an evaluator.
    #[serde(default)]
    pub address: String,
}

impl JobFile {
    /// A job that this process launches now.
    #[must_use]
    pub fn now(program: Vec<String>, model_dir: String, cluster: Value, tasks: Vec<JobTask>) -> Self {
        Self {
            format_version: FORMAT_VERSION,
            program,
            directory: std::env::current_dir().map(|path| path.display().to_string()).unwrap_or_default(),
            host: host_name(),
            launcher_pid: Some(std::process::id()),
            launcher: ProcessIdentity::of(std::process::id()),
            started: now_ms(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            model_dir,
            cluster,
            tasks,
        }
    }
}

impl JobFile {
    /// Whether the launcher of the job still exists; `None` if that cannot be known here, because it runs on another machine.
    #[must_use]
    pub fn launcher_is_alive(&self) -> Option<bool> {
        if self.host != host_name() {
            return None;
        }
        match (&self.launcher, self.launcher_pid) {
            (Some(launcher), _) => Some(launcher.is_alive()),
            (None, Some(pid)) => Some(std::path::Path::new(&format!("/proc/{pid}")).exists()),
            (None, None) => None,
        }
    }
}

impl RunDir {
    /// Reads `job.json`; `None` if it is missing or damaged.
    ///
    /// # Errors
    /// [`phalanx_base::Code::DataFormat`] if a newer version of Phalanx wrote it.
    pub fn read_job(&self) -> Result<Option<JobFile>> {
        format::read(&self.job_file())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_base::Code;

    #[test]
    fn older_files_are_read_and_newer_ones_are_refused_with_advice() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::at(dir.path());
        std::fs::create_dir_all(run.logs()).unwrap();
        assert!(run.read_job().unwrap().is_none());
        let write = |text: &str| std::fs::write(run.job_file(), text).unwrap();
        write(r#"{"program":["a"],"started":5,"tasks":[{"task":"ps/1","node":"","address":"h:1"}]}"#);
        let job = run.read_job().unwrap().unwrap();
        assert_eq!((job.format_version, job.started, job.tasks[0].task.to_string().as_str()), (0, 5, "ps/1"));
        write(&serde_json::to_string(&JobFile::now(job.program, String::new(), Value::Null, job.tasks)).unwrap());
        assert_eq!(run.read_job().unwrap().unwrap().format_version, FORMAT_VERSION);
        write(r#"{"format_version":2,"program":{"of another kind":1}}"#);
        let error = run.read_job().unwrap_err();
        assert_eq!(error.code(), Code::DataFormat);
        assert!(error.what().contains("newer version") && error.next().is_some(), "{error}");
        write("{");
        assert!(run.read_job().unwrap().is_none());
    }
}
