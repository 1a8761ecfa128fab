//! The outcomes of steps.

use super::step::StepState;
use super::{Scheduler, StepId, StepOutcome, UpdateReach};

impl<W: Clone, R> Scheduler<W, R> {
    /// Ends a step.
    pub(super) fn finish(&mut self, id: StepId, outcome: StepOutcome<R>) {
        let Some(step) = self.steps.get_mut(&id).filter(|step| !matches!(step.state, StepState::Done(_))) else {
            return;
        };
        self.unfinished -= 1;
        self.bytes -= step.bytes;
        self.queue.remove(&id);
        if let Some((name, UpdateReach::Somewhere)) = step.pushed
            && !matches!(outcome, StepOutcome::Ok(_))
        {
            self.unfinished_updates.push((name, step.counted));
        }
        if step.wanted {
            (step.work, step.state) = (None, StepState::Done(outcome));
            step.causes = Vec::new();
        } else {
            self.steps.remove(&id);
        }
    }

    /// Returns whether no step waits or is in flight.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.unfinished == 0
    }

    /// Returns the number of unfinished steps.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.unfinished
    }

    /// Returns the outcome of a step; `None` while it is unfinished, and after it was forgotten.
    #[must_use]
    pub fn outcome(&self, id: StepId) -> Option<&StepOutcome<R>> {
        match &self.steps.get(&id)?.state {
            StepState::Done(outcome) => Some(outcome),
            StepState::Queued | StepState::Out => None,
        }
    }

    /// Declares that the outcome of this step is not needed. It still runs.
    pub fn forget(&mut self, id: StepId) {
        if self.outcome(id).is_some() {
            self.steps.remove(&id);
        } else if let Some(step) = self.steps.get_mut(&id) {
            step.wanted = false;
        }
    }

    /// Removes a step from the queue if it was never handed out; returns whether it did.
    pub fn cancel(&mut self, id: StepId) -> bool {
        let never_ran = self.queue.contains(&id) && self.steps.get(&id).is_some_and(|step| step.runs == 0);
        if never_ran {
            self.finish(id, StepOutcome::Cancelled);
        }
        never_ran
    }
}
