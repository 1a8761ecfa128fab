//! What a job shows of itself while it runs.

use phalanx_base::TaskId;
use phalanx_run::Event;

/// Observes a job; the terminal's display is one.
pub trait Observer {
    /// Something happened to the job or to a task.
    fn event(&mut self, event: &Event);
    /// A task printed a line.
    fn line(&mut self, task: TaskId, text: &str);
    /// Something is wrong, and the job continues.
    fn warn(&mut self, text: &str);
    /// Called many times a second.
    fn tick(&mut self) {}
}
