//! One process life of a worker.

use phalanx_base::{Incarnation, TaskId, UpdateName};

/// One process life of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Life {
    /// The task.
    pub task: TaskId,
    /// Which of its lives.
    pub incarnation: Incarnation,
}

impl Life {
    /// The life `incarnation` of `task`.
    #[must_use]
    pub fn new(task: TaskId, incarnation: Incarnation) -> Self {
        Self { task, incarnation }
    }

    /// The name of this life's update `sequence`.
    #[must_use]
    pub fn update(self, sequence: u64) -> UpdateName {
        UpdateName { task: self.task, incarnation: self.incarnation, sequence }
    }
}

impl From<(TaskId, Incarnation)> for Life {
    fn from((task, incarnation): (TaskId, Incarnation)) -> Self {
        Self { task, incarnation }
    }
}

impl std::fmt::Display for Life {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (life {})", self.task, self.incarnation)
    }
}
