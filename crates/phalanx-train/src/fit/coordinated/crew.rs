//! The workers of an epoch: whose share of the data has ended, and who is away.

use crate::Coordinator;
use phalanx_base::{Result, TaskId};
use phalanx_nn::Network;
use std::collections::BTreeSet;

/// Who is to read a share, and who has read all of it.
pub(super) struct Crew {
    /// Those that the cluster lists.
    listed: BTreeSet<TaskId>,
    ended: BTreeSet<TaskId>,
}

impl Crew {
    pub(super) fn of<M: Network>(coordinator: &mut Coordinator<M>) -> Result<Self> {
        let server = coordinator.session_mut()?.server();
        let own = server.task();
        let listed = server.config().trainers().into_iter().map(|(task, _)| task).filter(|task| *task != own).collect();
        Ok(Self { listed, ended: BTreeSet::new() })
    }

    /// How many are listed.
    pub(super) fn size(&self) -> usize {
        self.listed.len()
    }

    /// A pass begins.
    pub(super) fn begin(&mut self) {
        self.ended.clear();
    }

    /// A worker has nothing left.
    pub(super) fn has_ended(&mut self, task: TaskId) {
        self.ended.insert(task);
    }

    /// Whether nobody who is here has anything left. Those who have not come yet are waited for, those who were lost are
    /// not: their share goes on when they return.
    pub(super) fn all_ended<M: Network>(&self, coordinator: &mut Coordinator<M>) -> Result<bool> {
        if self.ended.is_empty() {
            return Ok(false);
        }
        let here: BTreeSet<TaskId> =
            coordinator.workers().into_iter().filter(|view| !view.lost).map(|view| view.life.task).collect();
        let lost: BTreeSet<TaskId> =
            coordinator.session_mut()?.server().job().ever_lost().into_iter().map(|(task, _)| task).collect();
        let awaited = self.listed.iter().filter(|task| !here.contains(task) && !lost.contains(task));
        Ok(here.iter().chain(awaited).all(|task| self.ended.contains(task)))
    }

    /// Those whose share was not read to its end.
    pub(super) fn behind(&self) -> Vec<String> {
        self.listed.difference(&self.ended).map(TaskId::to_string).collect()
    }
}
