//! Who looks on while a job runs.

use crate::Happened;
use phalanx_base::TaskId;

/// Sees what happens, for a terminal.
pub trait Watcher {
    /// Something happened to the job or a task.
    fn event(&mut self, event: &Happened);
    /// A task printed a line.
    fn line(&mut self, task: TaskId, text: &str);
    /// Something is not as it should be, and the job goes on.
    fn warn(&mut self, text: &str);
    /// Some time has passed; names tasks that are to be killed now, to show what happens then.
    fn tick(&mut self) -> Vec<TaskId> {
        Vec::new()
    }
}
