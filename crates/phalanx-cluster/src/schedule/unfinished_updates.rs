//! Updates of lost workers that some servers have and others lack, and that no step will complete.

use super::step::Step;
use super::{Scheduler, StepEffect, StepId, UpdateReach};
use phalanx_base::UpdateId;

impl<W: Clone, R> Scheduler<W, R> {
    /// Returns the unfinished updates since the last call: their step failed for good after a worker was lost while
    /// pushing it, or the job ended. To make the servers agree, push any gradients under each id, on behalf of its
    /// incarnation.
    pub fn take_unfinished_updates(&mut self) -> Vec<UpdateId> {
        std::mem::take(&mut self.unfinished_updates).into_iter().map(|(name, _)| name).collect()
    }

    /// Has a newly scheduled step that pushes complete the unfinished updates. One that the server that counts steps
    /// lacks becomes the step's own id: it then counts as that step. Copies of the step complete the others.
    pub fn adopt_unfinished_updates(&mut self, id: StepId) {
        let Some(work) = self.steps.get(&id).and_then(|step| step.work.clone()) else { return };
        let mut taken = false;
        for (name, counted) in std::mem::take(&mut self.unfinished_updates) {
            let pushed = Some((name, UpdateReach::Somewhere));
            if counted {
                let copy = StepId(self.next);
                self.next += 1;
                let step = Step { pushed, counted, wanted: false, ..Step::new(work.clone(), 0, StepEffect::Update) };
                self.steps.insert(copy, step);
                self.queue.insert(copy);
                self.unfinished += 1;
            } else if let (false, Some(step)) = (taken, self.steps.get_mut(&id)) {
                (step.pushed, taken) = (pushed, true);
            } else {
                self.unfinished_updates.push((name, counted));
            }
        }
    }
}
