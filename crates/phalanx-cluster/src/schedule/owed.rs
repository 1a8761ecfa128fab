//! Updates that some servers have and others lack, and that no step will complete.

use super::step::Step;
use super::{Effect, Reach, Scheduler, StepId};
use phalanx_base::UpdateName;

impl<W: Clone, R> Scheduler<W, R> {
    /// Names of updates that some servers have and that no step will complete, since this was last asked: the step
    /// failed for good after a worker was lost in the middle of pushing it, or the job ended. To make the servers
    /// agree, push any gradients under each name, on behalf of its life.
    pub fn take_owed(&mut self) -> Vec<UpdateName> {
        std::mem::take(&mut self.owed).into_iter().map(|(name, _)| name).collect()
    }

    /// Has a step that was just scheduled, and pushes, see to names that are owed. One that the server that counts steps
    /// lacks becomes the step's own: it then counts as that step. The others are completed by copies of it.
    pub fn adopt_owed(&mut self, id: StepId) {
        let Some(work) = self.steps.get(&id).and_then(|step| step.work.clone()) else { return };
        let mut taken = false;
        for (name, counted) in std::mem::take(&mut self.owed) {
            let pushed = Some((name, Reach::Somewhere));
            if counted {
                let copy = StepId(self.next);
                self.next += 1;
                let step = Step { pushed, counted, wanted: false, ..Step::new(work.clone(), 0, Effect::Update) };
                self.steps.insert(copy, step);
                self.queue.insert(copy);
                self.unfinished += 1;
            } else if let (false, Some(step)) = (taken, self.steps.get_mut(&id)) {
                (step.pushed, taken) = (pushed, true);
            } else {
                self.owed.push((name, counted));
            }
        }
    }
}
