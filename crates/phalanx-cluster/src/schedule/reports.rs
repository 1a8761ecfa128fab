//! What workers report.

use super::step::State;
use super::worker::Held;
use super::{Life, Outcome, Reach, Receipt, Remark, Scheduler, Ticket};
use phalanx_base::{Code, Error};
use std::time::Duration;

impl<W: Clone, R> Scheduler<W, R> {
    /// A step is whole on every server. `sequence` is the number it was pushed under (that of the other life's name for a
    /// step on behalf of one), `None` if it pushed nothing.
    pub fn committed(
        &mut self,
        now: Duration,
        life: Life,
        ticket: Ticket,
        sequence: Option<u64>,
        result: R,
    ) -> Receipt {
        let held = match self.find(life, ticket) {
            Ok(held) => held,
            Err(receipt) => return receipt,
        };
        let Some(worker) = self.workers.get_mut(&life) else { return Receipt::Repeated };
        let on_behalf_of = self.steps.get(&ticket.step).and_then(|step| step.pushed);
        let right = match (on_behalf_of, sequence) {
            (Some((name, _)), sequence) => sequence == Some(name.sequence),
            (None, Some(sequence)) => held.own_name && worker.sequence_of(ticket.turn) == Some(sequence),
            (None, None) => true,
        };
        if !right {
            return Receipt::Ignored(Remark::WrongSequence(life, ticket, sequence));
        }
        if let (true, Some(sequence)) = (held.own_name, sequence) {
            worker.reported.insert(sequence);
        }
        worker.release(now, ticket.turn);
        worker.commit(now);
        if let Some(step) = self.steps.get(&ticket.step) {
            self.rounds.committed(step);
        }
        self.finish(ticket.step, Outcome::Ok(result));
        Receipt::Taken
    }

    /// A step failed by the user's mistake, before anything of it was pushed. It is not tried again; the first such error
    /// cancels what was never handed out and is then [raised](Scheduler::raise).
    pub fn failed(&mut self, now: Duration, life: Life, ticket: Ticket, error: Error) -> Receipt {
        if let Err(receipt) = self.find(life, ticket) {
            return receipt;
        }
        if let Some(worker) = self.workers.get_mut(&life) {
            worker.release(now, ticket.turn);
        }
        self.fail(ticket, error);
        Receipt::Taken
    }

    /// A step could not be run because of trouble that is not its fault, and nothing of it was pushed under the worker's
    /// own name. It is tried again, by another worker if there is one.
    pub fn gave_back(&mut self, now: Duration, life: Life, ticket: Ticket, cause: &str) -> Receipt {
        if let Err(receipt) = self.find(life, ticket) {
            return receipt;
        }
        if let Some(worker) = self.workers.get_mut(&life) {
            worker.release(now, ticket.turn);
        }
        if let Some(step) = self.steps.get_mut(&ticket.step) {
            step.avoid = Some(life);
        }
        self.requeue(ticket, Some(format!("{}: {cause}", life.task)));
        Receipt::Taken
    }

    /// The step that a report is about.
    fn find(&self, life: Life, ticket: Ticket) -> Result<Held, Receipt> {
        let Some(worker) = self.workers.get(&life) else {
            return Err(match self.stranger(life) {
                Remark::Ended(_) => Receipt::Repeated,
                remark => Receipt::Ignored(remark),
            });
        };
        match worker.held.get(&ticket.turn) {
            Some(held) if held.step == ticket.step => Ok(held.clone()),
            None if (1..=worker.turns).contains(&ticket.turn) => Err(Receipt::Repeated),
            Some(_) | None => Err(Receipt::Ignored(Remark::NotYours(life, ticket))),
        }
    }

    /// Puts a step that a life had back into the queue; with a cause, as an attempt that failed.
    pub(super) fn requeue(&mut self, ticket: Ticket, cause: Option<String>) {
        let attempts = self.options.attempts.max(1);
        let Some(step) = self.steps.get_mut(&ticket.step) else { return };
        step.causes.extend(cause);
        self.rounds.came_back(step);
        if step.causes.len() < attempts {
            step.state = State::Queued;
            self.queue.insert(ticket.step);
            return;
        }
        let tried = format!("{} could not be run: it was tried {} times", ticket.step, step.causes.len());
        let error = Error::new(Code::JobFailed, tried).because(step.causes.join("; "));
        self.fail(ticket, error.help("see the logs of the tasks that are named"));
    }

    /// Ends a step with an error, and stores it if it is the first.
    fn fail(&mut self, ticket: Ticket, error: Error) {
        let update = self.steps.get(&ticket.step).map_or(Reach::Nowhere, super::step::Step::reach);
        if let Some(step) = self.steps.get(&ticket.step) {
            self.rounds.failed(step);
        }
        self.finish(ticket.step, Outcome::Failed { error: error.clone(), update });
        self.store(error);
    }
}
