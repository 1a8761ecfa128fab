//! What tasks want to find again: a few bytes each, kept beside the updates they belong to.

use super::lock;
use phalanx_base::{Code, Error, Result, TaskId};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// No note is longer.
const LONGEST: usize = 64 << 10;

/// The newest note of every task.
#[derive(Debug, Default)]
pub(crate) struct Notes(Mutex<BTreeMap<TaskId, Vec<u8>>>);

impl Notes {
    /// Checks a note that came from outside.
    pub(crate) fn check(note: &[u8]) -> Result<()> {
        if note.len() > LONGEST {
            return Err(Error::new(Code::BadMessage, format!("a note of {} bytes", note.len()))
                .because(format!("at most {LONGEST} are kept for a task")));
        }
        Ok(())
    }

    pub(crate) fn keep(&self, task: TaskId, note: &[u8]) {
        if !note.is_empty() {
            lock(&self.0).insert(task, note.to_vec());
        }
    }

    pub(crate) fn clear(&self) {
        lock(&self.0).clear();
    }

    pub(crate) fn all(&self) -> Vec<(TaskId, Vec<u8>)> {
        lock(&self.0).iter().map(|(task, note)| (*task, note.clone())).collect()
    }
}
