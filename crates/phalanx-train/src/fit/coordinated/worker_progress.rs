//! Which workers have read their share of the data to its end.

use crate::Coordinator;
use phalanx_base::{Result, TaskId};
use phalanx_nn::Network;
use std::collections::BTreeSet;

/// The workers of a pass, and those that have finished it.
pub(crate) struct WorkerProgress {
    /// The workers in the cluster spec.
    listed: BTreeSet<TaskId>,
    ended: BTreeSet<TaskId>,
}

impl WorkerProgress {
    pub(crate) fn of<M: Network>(coordinator: &mut Coordinator<M>) -> Result<Self> {
        let server = coordinator.session_mut()?.server();
        let own = server.task();
        let listed = server.config().trainers().into_iter().map(|(task, _)| task).filter(|task| *task != own).collect();
        Ok(Self { listed, ended: BTreeSet::new() })
    }

    /// Returns the number of workers in the cluster spec.
    pub(super) fn size(&self) -> usize {
        self.listed.len()
    }

    /// Begins a pass.
    pub(super) fn begin(&mut self) {
        self.ended.clear();
    }

    /// Records that a worker has no data left.
    pub(crate) fn has_ended(&mut self, task: TaskId) {
        self.ended.insert(task);
    }

    /// Returns the workers that have not joined yet and are not lost.
    pub(super) fn awaited<M: Network>(&self, coordinator: &mut Coordinator<M>) -> Result<Vec<TaskId>> {
        let here: BTreeSet<TaskId> = coordinator.workers().into_iter().map(|view| view.worker_id.task).collect();
        let lost: BTreeSet<TaskId> =
            coordinator.session_mut()?.server().job().ever_lost().into_iter().map(|(task, _)| task).collect();
        Ok(self.listed.iter().filter(|task| !here.contains(task) && !lost.contains(task)).copied().collect())
    }

    /// Returns whether all present workers have finished. Workers that have not joined yet are waited for; lost ones are
    /// not, and continue their share when they return.
    pub(crate) fn all_ended<M: Network>(&self, coordinator: &mut Coordinator<M>) -> Result<bool> {
        if self.ended.is_empty() {
            return Ok(false);
        }
        let here = coordinator.workers().into_iter().filter(|view| !view.lost).map(|view| view.worker_id.task);
        let awaited = self.awaited(coordinator)?;
        Ok(here.chain(awaited).all(|task| self.ended.contains(&task)))
    }

    /// Returns the workers that have not finished.
    pub(super) fn behind(&self) -> Vec<String> {
        self.listed.difference(&self.ended).map(TaskId::to_string).collect()
    }
}
