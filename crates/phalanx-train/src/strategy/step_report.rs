//! What a task without a [`Server`](crate::Server) reports: mirrored workers, and a process that trains alone.

use crate::ServerOptions;
use crate::status::{ProgressCounters, SharedWriter, StatusWriter};
use phalanx_base::{Incarnation, Result, TaskId};
use phalanx_cluster::Phase;
use phalanx_nn::ParameterRegistry;
use phalanx_run::{STATUS_DIR_VAR, StatusDir};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// Reports the steps of a task for the dashboard and `phalanx status`, from its first training on. Dropping it reports the last
/// step.
pub(super) struct StepReport {
    /// Where to write, and as which task; `None` if nobody launched this process.
    target: Option<(PathBuf, TaskId)>,
    counters: Arc<ProgressCounters>,
    writer: OnceLock<SharedWriter>,
}

impl StepReport {
    /// A report of `task`. Its trainers step together if there are several.
    pub(super) fn new(options: &ServerOptions, task: Option<TaskId>) -> Self {
        let target = options.status_dir.clone().zip(task);
        Self { target, counters: Arc::default(), writer: OnceLock::new() }
    }

    /// A report of `task` to the launcher that started this process, if one did.
    pub(super) fn from_env(task: Option<TaskId>) -> Self {
        let status_dir = std::env::var_os(STATUS_DIR_VAR).map(Into::into);
        Self::new(&ServerOptions { status_dir, ..ServerOptions::default() }, task)
    }

    /// Begins to report, unless that has begun. `workers` is the number of processes that step together.
    pub(super) fn begin(&self, registry: &ParameterRegistry, workers: usize) -> Result<()> {
        let Some((dir, task)) = self.target.as_ref().filter(|_| self.writer.get().is_none()) else { return Ok(()) };
        if workers > 1 {
            self.counters.set_in_sync();
        }
        // Training continues without this file.
        let _ = StatusDir::at(dir).write_placement(*task, &crate::placement::of_whole(registry, *task));
        let writer = StatusWriter::new(dir, (*task, Incarnation(0)), None, &self.counters).start(|| Phase::Running)?;
        let _ = self.writer.set(writer);
        Ok(())
    }

    pub(super) fn counters(&self) -> &ProgressCounters {
        &self.counters
    }
}

impl Drop for StepReport {
    fn drop(&mut self) {
        if let Some(writer) = self.writer.get() {
            writer.write(Phase::Over);
        }
    }
}
