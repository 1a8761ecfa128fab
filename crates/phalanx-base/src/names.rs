//! The name of an update: what makes a repeat recognisable.

use crate::{Incarnation, TaskId};

/// Names one step's update. Each shard applies a name once and drops repeats, so a retry, a step run again by
/// another task, or a lost acknowledgement can neither lose nor double an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UpdateName {
    /// The task whose step this is (not always the task that sends it: a lost worker's step is finished by another).
    pub task: TaskId,
    /// That task's life.
    pub incarnation: Incarnation,
    /// The step's number in that life, from 1 without gaps.
    pub sequence: u64,
}

impl std::fmt::Display for UpdateName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "step {} of {}", self.sequence, self.task)
    }
}
