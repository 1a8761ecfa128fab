//! The error that is raised, and the end of the job.

use super::step::State;
use super::{Outcome, Scheduler, StepId};
use phalanx_base::Error;

impl<W: Clone, R> Scheduler<W, R> {
    /// Keeps the first error, and cancels what was never handed out. A step that some worker had, even if it is back in
    /// the queue, may have run: calling it cancelled could be a lie, so it runs to its true end.
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
            self.finish(id, Outcome::Cancelled);
        }
    }

    /// Whether an error waits to be raised.
    #[must_use]
    pub fn is_failing(&self) -> bool {
        self.error.is_some()
    }

    /// The stored error, once, and only when nothing is in flight any more: whoever gets it knows that nothing of
    /// the failed batch still runs. Scheduling then works again.
    pub fn raise(&mut self) -> Option<Error> {
        if self.is_done() { self.error.take() } else { None }
    }

    /// Whether the job has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// The job ends now. What was never handed out is cancelled; of what a worker had, nobody will know. Every life
    /// is over.
    pub fn end(&mut self) {
        self.ended = true;
        self.cancel_unstarted();
        let open =
            |(&id, step): (&StepId, &super::step::Step<W, R>)| (!matches!(step.state, State::Done(_))).then_some(id);
        let open: Vec<StepId> = self.steps.iter().filter_map(open).collect();
        for id in open {
            self.finish(id, Outcome::Unknown);
        }
        self.over.extend(std::mem::take(&mut self.workers).into_keys());
    }
}
