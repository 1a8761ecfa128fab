//! Whether the servers have every update that trainers were told they have.

use crate::format::as_text;
use crate::{StatusDir, TaskStatus};
use phalanx_base::{Role, TaskId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The updates of one incarnation of a trainer: those that every server has acknowledged, or those that a server has.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct UpdateCount {
    /// The trainer.
    #[serde(with = "as_text")]
    pub task: TaskId,
    /// Its incarnation, in hexadecimal digits.
    pub incarnation: String,
    /// The number of its newest update.
    pub newest: u64,
    /// How many of its updates there are, up to that one.
    pub updates: u64,
}

impl StatusDir {
    /// Counts the updates that were acknowledged and that a server lacks at the end of a job, over all its servers: by the
    /// trainers' own counts; for a trainer that was killed, by the newest of its updates on any server. `None` if a server
    /// has not reported which updates it has.
    ///
    /// ```
    /// use phalanx_run::StatusDir;
    /// let status = StatusDir::at("runs/demo/logs/status");
    /// assert_eq!(status.updates_lost(&["ps/0".parse()?]), None);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    #[must_use]
    pub fn updates_lost(&self, tasks: &[TaskId]) -> Option<u64> {
        let read = |task: &TaskId| self.read(*task).ok().flatten().map(|(status, _)| status);
        let servers = tasks.iter().filter(|task| task.role == Role::Ps);
        let servers = servers.map(|task| read(task)?.applied).collect::<Option<Vec<_>>>()?;
        let trainers: Vec<TaskStatus> = tasks.iter().filter(|task| task.role != Role::Ps).filter_map(read).collect();
        Some(lost(&trainers, &servers))
    }
}

fn lost(trainers: &[TaskStatus], servers: &[Vec<UpdateCount>]) -> u64 {
    let mut expected: BTreeMap<(TaskId, &str), u64> = BTreeMap::new();
    for count in servers.iter().flatten() {
        let newest = expected.entry((count.task, &count.incarnation)).or_default();
        *newest = count.newest.max(*newest);
    }
    for count in trainers.iter().filter_map(|status| status.acknowledged.as_ref()) {
        expected.insert((count.task, &count.incarnation), count.updates);
    }
    let lacks = |server: &Vec<UpdateCount>| {
        let has = |(task, incarnation): &(TaskId, &str)| {
            let found = server.iter().find(|count| (count.task, count.incarnation.as_str()) == (*task, *incarnation));
            found.map_or(0, |count| count.updates)
        };
        expected.iter().map(|(trainer, updates)| updates.saturating_sub(has(trainer))).sum::<u64>()
    };
    servers.iter().map(lacks).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(task: &str, incarnation: &str, newest: u64, updates: u64) -> UpdateCount {
        UpdateCount { task: task.parse().unwrap(), incarnation: incarnation.into(), newest, updates }
    }

    fn trainer(count: UpdateCount) -> TaskStatus {
        TaskStatus { acknowledged: Some(count.clone()), ..TaskStatus::new(count.task) }
    }

    #[test]
    fn what_was_acknowledged_and_is_not_on_a_server_is_lost() {
        let trainers = [trainer(count("worker/0", "a", 9, 9)), trainer(count("worker/1", "b", 4, 4))];
        let whole = vec![count("worker/0", "a", 9, 9), count("worker/1", "b", 4, 4)];
        assert_eq!(lost(&trainers, &[whole.clone(), whole.clone()]), 0);
        let restored = vec![count("worker/0", "a", 9, 6)];
        assert_eq!(lost(&trainers, &[whole.clone(), restored]), 3 + 4);
        // One more than was acknowledged may be there.
        assert_eq!(lost(&trainers, &[vec![count("worker/0", "a", 10, 10), count("worker/1", "b", 4, 4)]]), 0);
    }

    #[test]
    fn the_updates_of_a_killed_trainer_are_those_that_some_server_has() {
        let (one, other) = (vec![count("worker/0", "a", 5, 5)], vec![count("worker/0", "a", 5, 3)]);
        assert_eq!(lost(&[], &[one, other]), 2);
    }

    #[test]
    fn a_server_that_reports_nothing_makes_it_unknown() {
        let dir = tempfile::tempdir().unwrap();
        let (status, ps): (_, TaskId) = (StatusDir::at(dir.path()), "ps/0".parse().unwrap());
        assert_eq!(status.updates_lost(&[ps]), None);
        status.write(ps, &TaskStatus { applied: Some(Vec::new()), ..TaskStatus::new(ps) }).unwrap();
        assert_eq!(status.updates_lost(&[ps, "worker/0".parse().unwrap()]), Some(0));
    }
}
