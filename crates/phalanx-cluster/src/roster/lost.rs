//! The tasks that were lost before they had finished their work.

use phalanx_base::{Code, Error, Incarnation, Result, TaskId};
use std::collections::BTreeMap;
use std::time::Duration;

/// Lost trainers, whose half-pushed steps must be completed, and lost servers, which may come back.
#[derive(Clone, Debug, Default)]
pub(super) struct LostTasks {
    trainers: Vec<(TaskId, Incarnation)>,
    /// How long a lost server may take to come back; `None` if its parameters are lost for good.
    grace: Option<Duration>,
    /// The servers that are waited for, and since when.
    servers: BTreeMap<TaskId, Duration>,
    /// The servers that came back empty.
    returned: Vec<TaskId>,
}

impl LostTasks {
    pub(super) fn wait_for_servers(&mut self, grace: Duration) {
        self.grace = Some(grace);
    }

    pub(super) fn lose_trainer(&mut self, task: TaskId, incarnation: Incarnation) {
        self.trainers.push((task, incarnation));
    }

    /// Records the loss of a server, and returns whether it is news. Fails if the server cannot be restored.
    pub(super) fn lose_server(&mut self, now: Duration, task: TaskId, why: &str) -> Result<bool> {
        if self.grace.is_some() {
            let known = self.servers.contains_key(&task);
            self.servers.entry(task).or_insert(now);
            return Ok(!known);
        }
        Err(Error::new(Code::ServerLost, format!("{task} is gone, and the parameters it held with it"))
            .because(why)
            .help("see its log, then start the job again; with a model_dir it can come back"))
    }

    /// Records that a server is back in another incarnation and has to be restored.
    pub(super) fn started_again(&mut self, task: TaskId) {
        self.servers.remove(&task);
        self.returned.push(task);
    }

    /// Records a heartbeat of the lost incarnation: the server was only silent, and has its state. Returns whether it had
    /// been lost.
    pub(super) fn forgive_server(&mut self, task: TaskId) -> bool {
        self.servers.remove(&task).is_some()
    }

    /// Fails if a server has not come back in time.
    pub(super) fn check(&self, now: Duration) -> Result<()> {
        let Some(grace) = self.grace else { return Ok(()) };
        match self.servers.iter().find(|(_, since)| now.saturating_sub(**since) > grace) {
            None => Ok(()),
            Some((task, _)) => Err(Error::new(Code::ServerLost, format!("{task} is gone and did not come back"))
                .because(format!("it was waited for {} s", grace.as_secs()))
                .help("start the job again; it resumes from the newest checkpoint")),
        }
    }

    pub(super) fn servers(&self) -> impl Iterator<Item = TaskId> {
        self.servers.keys().copied()
    }

    pub(super) fn take_returned(&mut self) -> Vec<TaskId> {
        std::mem::take(&mut self.returned)
    }

    pub(super) fn take_trainers(&mut self) -> Vec<(TaskId, Incarnation)> {
        std::mem::take(&mut self.trainers)
    }
}
