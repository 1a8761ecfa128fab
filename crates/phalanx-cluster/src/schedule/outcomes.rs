//! How steps end, and who asks for it.

use super::step::State;
use super::{Outcome, Reach, Scheduler, StepId};

impl<W: Clone, R> Scheduler<W, R> {
    /// Ends a step.
    pub(super) fn finish(&mut self, id: StepId, outcome: Outcome<R>) {
        let Some(step) = self.steps.get_mut(&id).filter(|step| !matches!(step.state, State::Done(_))) else { return };
        self.unfinished -= 1;
        self.bytes -= step.bytes;
        self.queue.remove(&id);
        if let Some((name, Reach::Somewhere)) = step.pushed
            && !matches!(outcome, Outcome::Ok(_))
        {
            self.owed.push((name, step.counted));
        }
        if step.wanted {
            (step.work, step.state) = (None, State::Done(outcome));
            step.causes = Vec::new();
        } else {
            self.steps.remove(&id);
        }
    }

    /// Whether nothing waits and nothing is in flight.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.unfinished == 0
    }

    /// How many steps have not finished.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.unfinished
    }

    /// How many steps wait in the queue.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// What became of a step; `None` while it is not known, and after it was forgotten.
    #[must_use]
    pub fn outcome(&self, id: StepId) -> Option<&Outcome<R>> {
        match &self.steps.get(&id)?.state {
            State::Done(outcome) => Some(outcome),
            State::Queued | State::Out => None,
        }
    }

    /// What became of a step, which is then forgotten.
    pub fn take_outcome(&mut self, id: StepId) -> Option<Outcome<R>> {
        self.outcome(id)?;
        match self.steps.remove(&id)?.state {
            State::Done(outcome) => Some(outcome),
            State::Queued | State::Out => None,
        }
    }

    /// Nobody will ask for this step's outcome. It still runs.
    pub fn forget(&mut self, id: StepId) {
        if self.outcome(id).is_some() {
            self.steps.remove(&id);
        } else if let Some(step) = self.steps.get_mut(&id) {
            step.wanted = false;
        }
    }

    /// Takes a step out of the queue if it was never handed out; answers whether.
    pub fn cancel(&mut self, id: StepId) -> bool {
        let never_ran = self.queue.contains(&id) && self.steps.get(&id).is_some_and(|step| step.runs == 0);
        if never_ran {
            self.finish(id, Outcome::Cancelled);
        }
        never_ran
    }
}
