//! The times of a pass and its redraws.

use std::time::Duration;

/// The shortest time between two redraws.
const INTERVAL: Duration = Duration::from_millis(50);

/// The times of one pass, by the display's clock.
pub(super) struct PassTimer {
    start: Duration,
    after_first: Option<Duration>,
    drawn: Option<Duration>,
}

impl PassTimer {
    pub(super) fn starting(start: Duration) -> Self {
        Self { start, after_first: None, drawn: None }
    }

    /// Returns whether the next redraw is due; the first always is.
    pub(super) fn is_due(&self, now: Duration) -> bool {
        self.drawn.is_none_or(|last| now.saturating_sub(last) >= INTERVAL)
    }

    pub(super) fn drawn(&mut self, now: Duration) {
        self.drawn = Some(now);
    }

    /// Returns the seconds since the pass began.
    pub(super) fn elapsed(&self, now: Duration) -> f64 {
        now.saturating_sub(self.start).as_secs_f64()
    }

    /// Returns the seconds per step. As soon as there are others, the first step is left out, since it includes warm-up.
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
