//! Synchronous rounds: which step belongs to which, and when a round is complete.

use super::step::Step;
use super::{Consistency, Scheduler, StepEffect};

/// The rounds of a scheduler; of size 0 if training is not synchronous.
#[derive(Clone, Debug)]
pub(super) struct Rounds {
    size: u64,
    backups: u64,
    /// The round that steps are handed out for.
    pub(super) open: u64,
    /// The number of steps handed out for it, and of those committed.
    handed: u64,
    arrived: u64,
    /// Whether the open round is closed with what it has once nothing is left to run.
    pub(super) ends: bool,
}

impl Rounds {
    pub(super) fn of(consistency: Consistency) -> Self {
        let (size, backups) = match consistency {
            Consistency::Rounds { size, backups } => (size.max(1), backups),
            Consistency::Async | Consistency::Bounded(_) => (0, 0),
        };
        Self { size, backups, open: 0, handed: 0, arrived: 0, ends: false }
    }

    /// Whether training is not synchronous.
    pub(super) fn none(&self) -> bool {
        self.size == 0
    }

    /// Returns how many steps a worker that wants `want` may have: one at a time in a round, so that others get their
    /// share.
    pub(super) fn capacity(&self, want: usize) -> usize {
        if self.none() { want } else { want.min(1) }
    }

    /// Whether a step may be handed out now, to a worker that is in the round `own`, while `others` have no step of the
    /// open round yet: a second step of the same worker must leave them theirs, so that a round has a step of each.
    pub(super) fn takes<W, R>(&self, step: &Step<W, R>, own: Option<u64>, others: u64) -> bool {
        if self.none() || step.effect == StepEffect::Nothing || step.round.is_some() {
            return true;
        }
        let left = self.size.saturating_sub(self.handed);
        left > if own == Some(self.open) { others } else { 0 }
    }

    /// Records that a step is handed out. It stays in the round for which it was first handed out.
    pub(super) fn hand_out<W, R>(&mut self, step: &mut Step<W, R>) {
        if !self.none() && step.effect == StepEffect::Update && step.round.is_none() {
            step.round = Some(self.open);
            self.handed += 1;
        }
    }

    pub(super) fn committed<W, R>(&mut self, step: &Step<W, R>) {
        self.arrived += u64::from(step.round == Some(self.open));
    }

    /// Records that a step goes back into the queue. It leaves a closed round unless it was pushed for it.
    pub(super) fn came_back<W, R>(&self, step: &mut Step<W, R>) {
        if step.pushed.is_none() && step.round.is_some_and(|round| round < self.open) {
            step.round = None;
        }
    }

    /// Records that a step will not run again: another one replaces it in the round.
    pub(super) fn failed<W, R>(&mut self, step: &Step<W, R>) {
        if !self.none() && step.round == Some(self.open) {
            self.handed = self.handed.saturating_sub(1);
        }
    }
}

impl<W: Clone, R> Scheduler<W, R> {
    /// Lets the open round close with fewer gradients once all scheduled steps are done, until another step is scheduled:
    /// the caller waits for them. Without that, a round would close early whenever its workers are faster than the caller.
    pub fn end_round(&mut self) {
        self.rounds.ends = true;
        if self.is_done() {
            // Steps that pushed nothing, such as those at the end of a pass, leave their workers a step of the open round.
            self.workers.values_mut().for_each(|worker| worker.round = None);
        }
    }

    /// Returns the round that is complete and should be closed on the servers; call
    /// [`round_closed`](Self::round_closed) once it is.
    #[must_use]
    pub fn complete_round(&self) -> Option<u64> {
        let Rounds { size, backups, open, arrived, ends, .. } = self.rounds;
        let enough = arrived >= size.saturating_sub(backups).max(1) || (ends && arrived > 0 && self.is_done());
        (size > 0 && enough).then_some(open)
    }

    /// Returns the number of closed rounds; 0 if training is not synchronous.
    #[must_use]
    pub fn closed_rounds(&self) -> u64 {
        self.rounds.open
    }

    /// Records that a round is closed on the servers: steps of the next one may be handed out.
    pub fn round_closed(&mut self, round: u64) {
        if round >= self.rounds.open {
            (self.rounds.open, self.rounds.handed, self.rounds.arrived) = (round + 1, 0, 0);
        }
    }
}
