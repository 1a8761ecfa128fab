//! Reports of workers.

use super::step::StepState;
use super::worker::Held;
use super::{AttemptId, Receipt, Rejection, Scheduler, StepOutcome, TaskIncarnation, UpdateReach};
use phalanx_base::{Code, Error};
use std::time::Duration;

impl<W: Clone, R> Scheduler<W, R> {
    /// Records that a step is complete on every server. `sequence` is the sequence number of its update id, or `None`
    /// if it pushed nothing.
    pub fn committed(
        &mut self,
        now: Duration,
        worker_id: TaskIncarnation,
        attempt_id: AttemptId,
        sequence: Option<u64>,
        result: R,
    ) -> Receipt {
        let held = match self.find(worker_id, attempt_id) {
            Ok(held) => held,
            Err(receipt) => return receipt,
        };
        let Some(worker) = self.workers.get_mut(&worker_id) else { return Receipt::Repeated };
        let on_behalf_of = self.steps.get(&attempt_id.step).and_then(|step| step.pushed);
        let right = match (on_behalf_of, sequence) {
            (Some((name, _)), sequence) => sequence == Some(name.sequence),
            (None, Some(sequence)) => held.own_id && worker.sequence_of(attempt_id.turn) == Some(sequence),
            (None, None) => true,
        };
        if !right {
            return Receipt::Ignored(Rejection::WrongSequence(worker_id, attempt_id, sequence));
        }
        if let (true, Some(sequence)) = (held.own_id, sequence) {
            worker.reported.insert(sequence);
        }
        worker.release(now, attempt_id.turn);
        worker.commit(now);
        if let Some(step) = self.steps.get(&attempt_id.step) {
            match sequence {
                Some(_) => self.rounds.committed(step),
                // Another one replaces it in the round.
                None => self.rounds.failed(step),
            }
        }
        self.finish(attempt_id.step, StepOutcome::Ok(result));
        Receipt::Taken
    }

    /// Records that a step failed by the user's mistake before anything of it was pushed. It is not retried. The first
    /// such error cancels the steps that were never handed out and is then [raised](Scheduler::raise).
    pub fn failed(
        &mut self,
        now: Duration,
        worker_id: TaskIncarnation,
        attempt_id: AttemptId,
        error: Error,
    ) -> Receipt {
        if let Err(receipt) = self.find(worker_id, attempt_id) {
            return receipt;
        }
        if let Some(worker) = self.workers.get_mut(&worker_id) {
            worker.release(now, attempt_id.turn);
        }
        self.fail(attempt_id, error);
        Receipt::Taken
    }

    /// Records that a step could not be run for an external reason, and that nothing of it was pushed under the
    /// worker's own update id. It is retried, by another worker if there is one.
    pub fn gave_back(
        &mut self,
        now: Duration,
        worker_id: TaskIncarnation,
        attempt_id: AttemptId,
        cause: &str,
    ) -> Receipt {
        if let Err(receipt) = self.find(worker_id, attempt_id) {
            return receipt;
        }
        if let Some(worker) = self.workers.get_mut(&worker_id) {
            worker.release(now, attempt_id.turn);
        }
        if let Some(step) = self.steps.get_mut(&attempt_id.step) {
            step.avoid = Some(worker_id);
        }
        self.requeue(attempt_id, Some(format!("{}: {cause}", worker_id.task)));
        Receipt::Taken
    }

    /// Returns the step that a report is about.
    fn find(&self, worker_id: TaskIncarnation, attempt_id: AttemptId) -> Result<Held, Receipt> {
        let Some(worker) = self.workers.get(&worker_id) else {
            return Err(match self.stranger(worker_id) {
                Rejection::Ended(_) => Receipt::Repeated,
                rejection => Receipt::Ignored(rejection),
            });
        };
        match worker.held.get(&attempt_id.turn) {
            Some(held) if held.step == attempt_id.step => Ok(held.clone()),
            None if (1..=worker.turns).contains(&attempt_id.turn) => Err(Receipt::Repeated),
            Some(_) | None => Err(Receipt::Ignored(Rejection::NotYours(worker_id, attempt_id))),
        }
    }

    /// Puts a step of an incarnation back into the queue; with a cause, as a failed attempt.
    pub(super) fn requeue(&mut self, attempt_id: AttemptId, cause: Option<String>) {
        let attempts = self.options.attempts.max(1);
        let Some(step) = self.steps.get_mut(&attempt_id.step) else { return };
        step.causes.extend(cause);
        self.rounds.came_back(step);
        if step.causes.len() < attempts {
            step.state = StepState::Queued;
            self.queue.insert(attempt_id.step);
            return;
        }
        let tried = format!("{} could not be run: it was tried {} times", attempt_id.step, step.causes.len());
        let error = Error::new(Code::JobFailed, tried).because(step.causes.join("; "));
        self.fail(attempt_id, error.help("see the logs of the tasks that are named"));
    }

    /// Ends a step with an error, and stores the error if it is the first.
    fn fail(&mut self, attempt_id: AttemptId, error: Error) {
        let update = self.steps.get(&attempt_id.step).map_or(UpdateReach::Nowhere, super::step::Step::reach);
        if let Some(step) = self.steps.get(&attempt_id.step) {
            self.rounds.failed(step);
        }
        self.finish(attempt_id.step, StepOutcome::Failed { error: error.clone(), update });
        self.store(error);
    }
}
