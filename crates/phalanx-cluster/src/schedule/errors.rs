//! The stored error, and the end of the job.

use super::step::StepState;
use super::{Scheduler, StepId, StepOutcome};
use phalanx_base::Error;

impl<W: Clone, R> Scheduler<W, R> {
    /// Stores the first error, and cancels the steps that were never handed out. A step that some worker had may have
    /// run, even if it is back in the queue, so it is not cancelled.
    pub(super) fn store(&mut self, error: Error) {
        if self.error.is_none() {
            self.error = Some(error);
            self.cancel_unstarted();
        }
    }

    fn cancel_unstarted(&mut self) {
        let unstarted = |id: &StepId| self.steps.get(id).is_some_and(|step| step.runs == 0);
        let unstarted: Vec<StepId> = self.queue.iter().copied().filter(unstarted).collect();
        for id in unstarted {
            self.finish(id, StepOutcome::Cancelled);
        }
    }

    /// Returns whether an error waits to be raised.
    #[must_use]
    pub fn is_failing(&self) -> bool {
        self.error.is_some()
    }

    /// Returns the stored error, once, and only when no step is in flight: the caller then knows that nothing of the
    /// failed batch still runs. Scheduling then works again.
    pub fn raise(&mut self) -> Option<Error> {
        if self.is_done() { self.error.take() } else { None }
    }

    /// Returns whether the job has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Ends the job. Steps that were never handed out are cancelled; the outcome of those that a worker had is unknown.
    /// Every incarnation is over.
    pub fn end(&mut self) {
        self.ended = true;
        self.cancel_unstarted();
        let open = |(&id, step): (&StepId, &super::step::Step<W, R>)| {
            (!matches!(step.state, StepState::Done(_))).then_some(id)
        };
        let open: Vec<StepId> = self.steps.iter().filter_map(open).collect();
        for id in open {
            self.finish(id, StepOutcome::Unknown);
        }
        self.over.extend(std::mem::take(&mut self.workers).into_keys());
    }
}
