//! When the chief saves.

use std::time::Duration;

/// The time between two saves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SavePeriod {
    /// A fixed time, which the program has set.
    Every(Duration),
    /// Half of the time since the start, from 5 s up to TensorFlow's 600 s: a short job that loses a server repeats at most
    /// a third of its work. Saves that take long are made less often, so that they take less than a tenth of the time.
    Growing,
}

impl SavePeriod {
    const FIRST: Duration = Duration::from_secs(5);
    const STEADY: Duration = Duration::from_secs(600);

    /// Returns the time between the start of the last save and the next one. The last save began `age` after the first
    /// and took `cost`.
    pub(crate) fn pause(self, age: Duration, cost: Duration) -> Duration {
        match self {
            Self::Every(time) => time,
            Self::Growing => (age / 2).max(cost.saturating_mul(10)).clamp(Self::FIRST, Self::STEADY),
        }
    }
}

/// When to save: at once, unless the newest checkpoint is of that step, then after this time or this many steps; never,
/// where neither is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CheckpointInterval {
    pub(crate) time: Option<SavePeriod>,
    pub(crate) steps: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the seconds at which saves start in the first hour.
    fn saves(period: SavePeriod, cost: Duration) -> Vec<u64> {
        let (mut at, mut all) = (Duration::ZERO, Vec::new());
        while at < Duration::from_secs(3600) {
            all.push(at.as_secs());
            at += period.pause(at, cost);
        }
        all
    }

    #[test]
    fn the_default_saves_early_and_then_every_ten_minutes() {
        let all = saves(SavePeriod::Growing, Duration::ZERO);
        assert_eq!(all[..7], [0, 5, 10, 15, 22, 33, 50]);
        assert!(all.windows(2).all(|pair| pair[1] - pair[0] <= 600), "{all:?}");
        assert_eq!(all[all.len() - 1] - all[all.len() - 2], 600, "the steady state is TensorFlow's");
    }

    #[test]
    fn a_save_that_takes_long_is_made_less_often() {
        assert_eq!(saves(SavePeriod::Growing, Duration::from_secs(9))[..4], [0, 90, 180, 270]);
        assert_eq!(SavePeriod::Growing.pause(Duration::MAX, Duration::MAX), Duration::from_secs(600));
    }

    #[test]
    fn a_time_that_is_set_is_obeyed_exactly() {
        let period = SavePeriod::Every(Duration::from_secs(1200));
        assert_eq!(saves(period, Duration::from_secs(9)), [0, 1200, 2400]);
    }
}
