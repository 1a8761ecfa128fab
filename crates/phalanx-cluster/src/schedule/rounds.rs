//! Which step is for which round, and when a round is complete.

use super::step::Step;
use super::{Consistency, Effect, Scheduler};

/// The rounds of a scheduler; of size 0 where gradients are not collected into rounds.
#[derive(Clone, Debug)]
pub(super) struct Rounds {
    size: u64,
    backups: u64,
    /// The round that steps are handed out for.
    pub(super) open: u64,
    /// Steps handed out for it, and those of them that are in.
    handed: u64,
    arrived: u64,
}

impl Rounds {
    pub(super) fn of(consistency: Consistency) -> Self {
        let (size, backups) = match consistency {
            Consistency::Rounds { size, backups } => (size.max(1), backups),
            Consistency::Async | Consistency::Bounded(_) => (0, 0),
        };
        Self { size, backups, open: 0, handed: 0, arrived: 0 }
    }

    /// Whether there are none.
    pub(super) fn none(&self) -> bool {
        self.size == 0
    }

    /// How many steps a worker may have that wants `want`: one at a time, where others should get their part of a round.
    pub(super) fn room(&self, want: usize) -> usize {
        if self.none() { want } else { want.min(1) }
    }

    /// Whether a step may be handed out now.
    pub(super) fn takes<W, R>(&self, step: &Step<W, R>) -> bool {
        self.none() || step.effect == Effect::Nothing || step.round.is_some() || self.handed < self.size
    }

    /// A step is handed out; it stays in the round that it was first handed out for.
    pub(super) fn hand_out<W, R>(&mut self, step: &mut Step<W, R>) {
        if !self.none() && step.effect == Effect::Update && step.round.is_none() {
            step.round = Some(self.open);
            self.handed += 1;
        }
    }

    pub(super) fn committed<W, R>(&mut self, step: &Step<W, R>) {
        self.arrived += u64::from(step.round == Some(self.open));
    }

    /// A step goes back into the queue: to a round that is closed it can no longer belong, unless it was pushed for it.
    pub(super) fn came_back<W, R>(&self, step: &mut Step<W, R>) {
        if step.pushed.is_none() && step.round.is_some_and(|round| round < self.open) {
            step.round = None;
        }
    }

    /// A step will not be run again: another takes its place in the round.
    pub(super) fn failed<W, R>(&mut self, step: &Step<W, R>) {
        if !self.none() && step.round == Some(self.open) {
            self.handed = self.handed.saturating_sub(1);
        }
    }
}

impl<W: Clone, R> Scheduler<W, R> {
    /// The round that is complete and should be closed on the servers; tell [`round_closed`](Self::round_closed) when it is.
    /// Where nothing is left to run, a round with fewer gradients is complete too.
    #[must_use]
    pub fn complete_round(&self) -> Option<u64> {
        let Rounds { size, backups, open, arrived, .. } = self.rounds;
        let enough = arrived >= size.saturating_sub(backups).max(1) || (arrived > 0 && self.is_done());
        (size > 0 && enough).then_some(open)
    }

    /// How many rounds are closed; 0 where there are none.
    #[must_use]
    pub fn closed_rounds(&self) -> u64 {
        self.rounds.open
    }

    /// A round is closed on the servers: steps of the next one may be handed out.
    pub fn round_closed(&mut self, round: u64) {
        if round >= self.rounds.open {
            (self.rounds.open, self.rounds.handed, self.rounds.arrived) = (round + 1, 0, 0);
        }
    }
}
