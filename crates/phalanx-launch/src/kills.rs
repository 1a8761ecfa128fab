//! Fault injection: tasks that are killed when the job reaches a step.

use phalanx_base::TaskId;
use phalanx_run::SharedTailer;
use std::time::{Duration, Instant};

/// How often the job's step is looked up.
const EVERY: Duration = Duration::from_millis(200);

/// The kills that are still to come.
pub(crate) struct Kills<'a> {
    pending: Vec<(TaskId, u64)>,
    tailer: Option<&'a SharedTailer>,
    checked: Instant,
}

impl<'a> Kills<'a> {
    pub(crate) fn new(kills: &[(TaskId, u64)], tailer: Option<&'a SharedTailer>) -> Self {
        Self { pending: kills.to_vec(), tailer, checked: Instant::now() }
    }

    /// Returns the tasks that are due and the step that the job has reached. Each task is returned once.
    pub(crate) fn due(&mut self) -> (Vec<TaskId>, u64) {
        if self.pending.is_empty() || self.checked.elapsed() < EVERY {
            return (Vec::new(), 0);
        }
        self.checked = Instant::now();
        let step = self.tailer.and_then(SharedTailer::try_state).and_then(|state| state.step()).unwrap_or(0);
        (self.pending.extract_if(.., |(_, at)| step >= *at).map(|(task, _)| task).collect(), step)
    }
}
