//! An incarnation of a task.

use phalanx_base::{Incarnation, TaskId, UpdateId};

/// One incarnation of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskIncarnation {
    /// The task.
    pub task: TaskId,
    /// Its incarnation.
    pub incarnation: Incarnation,
}

impl TaskIncarnation {
    /// Creates the id of `incarnation` of `task`.
    #[must_use]
    pub fn new(task: TaskId, incarnation: Incarnation) -> Self {
        Self { task, incarnation }
    }

    /// Returns the id of this incarnation's update `sequence`.
    #[must_use]
    pub fn update(self, sequence: u64) -> UpdateId {
        UpdateId { task: self.task, incarnation: self.incarnation, sequence }
    }
}

impl From<(TaskId, Incarnation)> for TaskIncarnation {
    fn from((task, incarnation): (TaskId, Incarnation)) -> Self {
        Self { task, incarnation }
    }
}

impl std::fmt::Display for TaskIncarnation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (incarnation {})", self.task, self.incarnation)
    }
}
