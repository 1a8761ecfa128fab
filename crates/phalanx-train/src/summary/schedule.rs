//! When the progress of training is written as summaries.

use std::time::{Duration, Instant};

/// The distance between two points of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SummaryInterval {
    /// Half of the time since the start, from 1 s up to TensorFlow's 120 s: short jobs have curves, too.
    Growing,
    /// A time, which the program has set.
    Every(Duration),
    /// A number of global steps, which the program has set.
    Steps(u64),
}

/// When the next point is due, and the rate of training since the last one.
pub(crate) struct SummarySchedule {
    /// `None`: never.
    interval: Option<SummaryInterval>,
    began: Option<Instant>,
    /// When the last point was written, and its global step.
    last: Option<(Instant, u64)>,
}

impl SummarySchedule {
    const FIRST: Duration = Duration::from_secs(1);
    const STEADY: Duration = Duration::from_secs(120);

    pub(crate) fn new(interval: Option<SummaryInterval>) -> Self {
        Self { interval, began: None, last: None }
    }

    /// Returns a schedule with the same interval that has no point yet.
    pub(crate) fn again(&self) -> Self {
        Self::new(self.interval)
    }

    /// Returns whether a point is due at this global step; the first one is.
    pub(crate) fn is_due(&self, now: Instant, global_step: u64) -> bool {
        let Some(interval) = self.interval else { return false };
        let (Some((at, step)), Some(began)) = (self.last, self.began) else { return true };
        match interval {
            SummaryInterval::Growing => now >= at + ((at - began) / 2).clamp(Self::FIRST, Self::STEADY),
            SummaryInterval::Every(time) => now >= at + time,
            SummaryInterval::Steps(steps) => global_step >= step + steps,
        }
    }

    /// Notes that a point is written. Returns the global steps per second since the last one.
    pub(crate) fn written(&mut self, now: Instant, global_step: u64) -> Option<f32> {
        self.began.get_or_insert(now);
        let (at, step) = self.last.replace((now, global_step))?;
        Some(global_step.saturating_sub(step) as f32 / (now - at).as_secs_f32())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the seconds at which points are written, with a step every tenth of a second.
    fn points(interval: Option<SummaryInterval>, seconds: u64) -> Vec<f32> {
        let (mut schedule, start) = (SummarySchedule::new(interval), Instant::now());
        let mut all = Vec::new();
        for step in 0..10 * seconds {
            let now = start + Duration::from_millis(100 * step);
            if schedule.is_due(now, step) {
                let rate = schedule.written(now, step);
                assert_eq!(rate.map(|rate| rate.round()), (step > 0).then_some(10.0));
                all.push((now - start).as_secs_f32());
            }
        }
        all
    }

    #[test]
    fn points_are_close_at_first_and_then_every_two_minutes() {
        let all = points(Some(SummaryInterval::Growing), 3600);
        assert_eq!(all[..5], [0.0, 1.0, 2.0, 3.0, 4.5]);
        assert_eq!(all[all.len() - 1] - all[all.len() - 2], 120.0);
        assert!(all.len() < 50, "{}", all.len());
    }

    #[test]
    fn what_is_set_is_obeyed() {
        assert_eq!(points(Some(SummaryInterval::Every(Duration::from_secs(4))), 10), [0.0, 4.0, 8.0]);
        assert_eq!(points(Some(SummaryInterval::Steps(30)), 10), [0.0, 3.0, 6.0, 9.0]);
        assert!(points(None, 10).is_empty());
    }
}
