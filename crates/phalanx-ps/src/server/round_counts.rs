//! How many updates a round has (synchronous mode).

use std::collections::BTreeMap;

/// The updates of the rounds whose gradients may not have been applied, and the learning rate of the newest one.
#[derive(Default)]
pub(super) struct RoundCounts(BTreeMap<u64, (u32, Option<f32>)>);

impl RoundCounts {
    /// Adds an update to a round unless it was counted before; returns whether the round is a new one.
    pub(super) fn count(&mut self, round: u64, rate: Option<f32>, counts: bool) -> bool {
        let is_new = !self.0.contains_key(&round);
        let entry = self.0.entry(round).or_insert((0, rate));
        *entry = (entry.0 + u32::from(counts), rate);
        is_new
    }

    /// Returns the updates of a round and their learning rate.
    pub(super) fn of(&self, round: u64) -> Option<(u32, Option<f32>)> {
        self.0.get(&round).copied()
    }

    pub(super) fn drop_before(&mut self, round: u64) {
        self.0 = self.0.split_off(&round);
    }
}
