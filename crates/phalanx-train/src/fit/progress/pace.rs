//! When a pass began, how fast it goes, and when it was drawn last.

use std::time::Duration;

/// The least time between two redraws.
const INTERVAL: Duration = Duration::from_millis(50);

/// The times of one pass, by the display's clock.
pub(super) struct Pace {
    start: Duration,
    after_first: Option<Duration>,
    drawn: Option<Duration>,
}

impl Pace {
    pub(super) fn starting(start: Duration) -> Self {
        Self { start, after_first: None, drawn: None }
    }

    /// Whether enough time has passed for another redraw; the first is always due.
    pub(super) fn is_due(&self, now: Duration) -> bool {
        self.drawn.is_none_or(|last| now.saturating_sub(last) >= INTERVAL)
    }

    pub(super) fn drawn(&mut self, now: Duration) {
        self.drawn = Some(now);
    }

    /// Seconds since the pass began.
    pub(super) fn elapsed(&self, now: Duration) -> f64 {
        now.saturating_sub(self.start).as_secs_f64()
    }

    /// Seconds per step. The first step is left out once there are others: it also builds, compiles and warms up.
    pub(super) fn per_step(&mut self, seen: u64, now: Duration) -> f64 {
        let seconds = match (seen, self.after_first) {
            (0, _) => 0.0,
            (2.., Some(first)) => now.saturating_sub(first).as_secs_f64() / (seen - 1) as f64,
            _ => self.elapsed(now) / seen as f64,
        };
        if seen == 1 {
            self.after_first = Some(now);
        }
        seconds
    }
}
