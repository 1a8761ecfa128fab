//! The age of updates when they are applied.

use crate::proto::Exchange;
use std::sync::atomic::{AtomicU64, Ordering};

/// Ages that are counted one by one; older updates are counted together.
const AGES: usize = 63;

/// Counts updates by age: the number of steps committed between the values that an update was computed on and the update.
/// Kept by the server that counts steps.
#[derive(Debug)]
pub(crate) struct Staleness {
    counts: [AtomicU64; AGES + 1],
    newest_clock: AtomicU64,
    widest_lag: AtomicU64,
}

impl Default for Staleness {
    fn default() -> Self {
        let counts = std::array::from_fn(|_| AtomicU64::new(0));
        Self { counts, newest_clock: AtomicU64::new(0), widest_lag: AtomicU64::new(0) }
    }
}

impl Staleness {
    /// Records an update that is applied after `committed` steps.
    pub(crate) fn record(&self, ask: &Exchange, committed: u64) {
        if let Some(base_version) = ask.base_version {
            let age = usize::try_from(committed.saturating_sub(base_version)).unwrap_or(AGES).min(AGES);
            self.counts[age].fetch_add(1, Ordering::Relaxed);
        }
        if ask.clock > 0 {
            let newest = self.newest_clock.fetch_max(ask.clock, Ordering::AcqRel);
            self.widest_lag.fetch_max(newest.saturating_sub(ask.clock), Ordering::AcqRel);
        }
    }

    /// Returns the number of updates of each age, up to the oldest.
    pub(crate) fn counts(&self) -> Vec<u64> {
        let mut counts: Vec<u64> = self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let used = counts.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
        counts.truncate(used);
        counts
    }

    /// Returns the highest worker clock, and the largest lag of an update behind it.
    pub(crate) fn clocks(&self) -> (u64, u64) {
        (self.newest_clock.load(Ordering::Acquire), self.widest_lag.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_and_lags_are_counted() {
        let staleness = Staleness::default();
        for (base_version, clock, committed) in [(Some(10), 5, 10), (Some(10), 7, 13), (Some(0), 6, 200), (None, 0, 9)]
        {
            staleness.record(&Exchange { base_version, clock, ..Exchange::default() }, committed);
        }
        let counts = staleness.counts();
        assert_eq!((counts.len(), counts[0], counts[3], counts[AGES]), (AGES + 1, 1, 1, 1));
        assert_eq!(staleness.clocks(), (7, 1));
    }
}
