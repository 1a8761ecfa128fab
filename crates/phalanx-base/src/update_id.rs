//! The id of an update, by which servers recognise repeats.

use crate::{Incarnation, TaskId};

/// The id of one step's update. Each shard applies an id once and drops repeats, so a retry, a step run again by
/// another task, or a lost acknowledgement can neither lose nor double an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UpdateId {
    /// The task whose step this is. Another task may send it: a lost worker's step is finished by another worker.
    pub task: TaskId,
    /// The task's incarnation.
    pub incarnation: Incarnation,
    /// The step's number in that incarnation, from 1 without gaps.
    pub sequence: u64,
}

impl std::fmt::Display for UpdateId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "step {} of {}", self.sequence, self.task)
    }
}
