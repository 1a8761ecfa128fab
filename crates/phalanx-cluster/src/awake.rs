//! A clock that stands still while its owner does not run.

use std::time::Duration;

/// Measures how long its owner has been awake. A process that is stopped, swapped out or starved receives no heartbeats, which
/// says nothing about their senders. The owner reads the clock often, and a gap between two readings counts for
/// `longest` at most.
///
/// ```
/// use phalanx_cluster::AwakeClock;
/// use std::time::Duration;
/// let seconds = Duration::from_secs;
/// let mut clock = AwakeClock::new(seconds(1));
/// assert_eq!(clock.read(seconds(1)), seconds(1));
/// // Stopped for a minute.
/// assert_eq!(clock.read(seconds(61)), seconds(2));
/// assert_eq!(clock.read(seconds(62)), seconds(3));
/// ```
#[derive(Clone, Debug)]
pub struct AwakeClock {
    longest: Duration,
    /// The newest reading, in wall time and on this clock.
    read_at: Duration,
    awake: Duration,
}

impl AwakeClock {
    /// Creates a clock at zero. A gap between two readings counts for at most `longest`.
    #[must_use]
    pub fn new(longest: Duration) -> Self {
        Self { longest, read_at: Duration::ZERO, awake: Duration::ZERO }
    }

    /// Returns the awake time at `now`, the wall time since the clock was at zero.
    pub fn read(&mut self, now: Duration) -> Duration {
        self.awake = self.peek(now);
        self.read_at = self.read_at.max(now);
        self.awake
    }

    /// Returns what [`Self::read`] would, for a caller whose reading does not show that the owner is awake.
    #[must_use]
    pub fn peek(&self, now: Duration) -> Duration {
        self.awake + self.gap(now).min(self.longest)
    }

    /// Returns the wall time since the last reading.
    #[must_use]
    pub fn gap(&self, now: Duration) -> Duration {
        now.saturating_sub(self.read_at)
    }
}
