//! The input positions of tasks, kept beside the updates they belong to.

use super::lock;
use phalanx_base::{Code, Error, Result, TaskId};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// The largest input position in bytes.
const LARGEST: usize = 64 << 10;

/// The newest input position of every task.
#[derive(Debug, Default)]
pub(crate) struct InputPositions(Mutex<BTreeMap<TaskId, Vec<u8>>>);

impl InputPositions {
    /// Checks an input position that came from outside.
    pub(crate) fn check(position: &[u8]) -> Result<()> {
        if position.len() > LARGEST {
            return Err(Error::new(Code::BadMessage, format!("an input position of {} bytes", position.len()))
                .because(format!("a server keeps at most {LARGEST} for a task")));
        }
        Ok(())
    }

    /// Keeps a task's input position; an empty one changes nothing.
    pub(crate) fn keep(&self, task: TaskId, position: &[u8]) {
        if !position.is_empty() {
            lock(&self.0).insert(task, position.to_vec());
        }
    }

    pub(crate) fn clear(&self) {
        lock(&self.0).clear();
    }

    pub(crate) fn all(&self) -> Vec<(TaskId, Vec<u8>)> {
        lock(&self.0).iter().map(|(task, position)| (*task, position.clone())).collect()
    }
}
