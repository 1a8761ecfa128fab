//! The record of a worker's incarnation.

use super::sequences::Sequences;
use super::{AttemptId, StepEffect, StepId};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// The number of commits over which the rate is measured.
const WINDOW: usize = 32;

/// A step that a worker has.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) step: StepId,
    /// Whether it uses a sequence number of the worker's own.
    pub(super) own_id: bool,
    /// The worker's step count when it took this one.
    pub(super) number: u64,
    /// Whether the worker was already reported as stalled at this step.
    pub(super) told: bool,
}

/// One incarnation of a worker.
#[derive(Clone, Debug)]
pub(super) struct Worker {
    /// Its unreported steps, by turn.
    pub(super) held: BTreeMap<u64, Held>,
    /// The newest turn.
    pub(super) turns: u64,
    /// Its step count, for the staleness bound.
    pub(super) number: u64,
    /// The sequence numbers it reported.
    pub(super) reported: Sequences,
    /// Declared lost, and not fenced yet.
    pub(super) lost: bool,
    /// The newest round that it has or had a step of.
    pub(super) round: Option<u64>,
    /// Steps reported as committed.
    pub(super) committed: u64,
    /// When it began with its oldest step.
    pub(super) oldest_since: Duration,
    joined: Duration,
    commits: VecDeque<Duration>,
}

impl Worker {
    pub(super) fn new(now: Duration, sent: u64) -> Self {
        Self {
            held: BTreeMap::new(),
            turns: 0,
            number: 0,
            reported: Sequences::through(sent),
            lost: false,
            round: None,
            committed: 0,
            oldest_since: now,
            joined: now,
            commits: VecDeque::new(),
        }
    }

    /// Assigns a step to it; returns the attempt's id.
    pub(super) fn hold(&mut self, now: Duration, step: StepId, own_id: bool, number: u64) -> AttemptId {
        if self.held.is_empty() {
            self.oldest_since = now;
        }
        self.turns += 1;
        self.number = number;
        self.held.insert(self.turns, Held { step, own_id, number, told: false });
        AttemptId { step, turn: self.turns }
    }

    /// Takes a step away from it.
    pub(super) fn release(&mut self, now: Duration, turn: u64) -> Option<Held> {
        let was_oldest = self.held.first_key_value().is_some_and(|(&first, _)| first == turn);
        if was_oldest {
            self.oldest_since = now;
        }
        self.held.remove(&turn)
    }

    /// Returns the number of its oldest step in flight.
    pub(super) fn oldest_number(&self) -> Option<u64> {
        self.held.first_key_value().map(|(_, held)| held.number)
    }

    /// Returns the sequence number that the step of `turn` has or will have: steps with the worker's own ids are pushed
    /// in order, so the unreported ones have the unreported numbers, in order.
    pub(super) fn sequence_of(&self, turn: u64) -> Option<u64> {
        self.own_sequences().find(|&(other, _, _)| other == turn).map(|(_, _, sequence)| sequence)
    }

    /// Returns turn, step and sequence number of every unreported step with an id of the worker's own.
    pub(super) fn own_sequences(&self) -> impl Iterator<Item = (u64, StepId, u64)> {
        let own = self.held.iter().filter(|(_, held)| held.own_id);
        own.zip(self.reported.missing()).map(|((&turn, held), sequence)| (turn, held.step, sequence))
    }

    /// Counts a commit.
    pub(super) fn commit(&mut self, now: Duration) {
        self.committed += 1;
        if self.commits.len() == WINDOW {
            self.commits.pop_front();
        }
        self.commits.push_back(now);
    }

    /// Returns the commits per second over the last few, or since it joined.
    pub(super) fn rate(&self, now: Duration) -> f64 {
        let whole = self.commits.len() == WINDOW;
        let since = if whole { self.commits.front().copied().unwrap_or(self.joined) } else { self.joined };
        // The first commit of a full window marks its beginning and is not counted.
        let counted = self.commits.len() - usize::from(whole);
        let seconds = now.saturating_sub(since).as_secs_f64();
        if seconds > 0.0 { counted as f64 / seconds } else { 0.0 }
    }
}

/// Whether a run of a step uses a sequence number of the worker's own.
pub(super) fn own_id(effect: StepEffect, on_behalf: bool) -> bool {
    effect == StepEffect::Update && !on_behalf
}
