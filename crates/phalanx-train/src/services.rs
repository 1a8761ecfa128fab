//! What the chief does beside training: save, and write summaries, each at its own pace.

use crate::checkpoint::{Follow, Keeper, Saved};
use crate::summary::SummaryWriter;
use phalanx_base::Result;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Something done at once and then every so often.
#[derive(Debug)]
pub(crate) struct Timer {
    every: Duration,
    next: Option<Instant>,
}

impl Timer {
    pub(crate) fn new(every: Duration) -> Self {
        Self { every, next: None }
    }

    /// Whether it is time; the first answer is yes, as TensorFlow's services fire when they start.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        let due = self.next.is_none_or(|next| now >= next);
        if due {
            self.next = Some(now + self.every);
        }
        due
    }
}

/// How fast training goes, written down when it is time.
struct Rate {
    pace: Option<Timer>,
    since: Option<(Instant, u64)>,
}

impl Rate {
    /// Whether it is time; if so the rate since the last time is written.
    fn write(&mut self, summaries: &SummaryWriter, global_step: u64) -> bool {
        let now = Instant::now();
        if !self.pace.as_mut().is_some_and(|pace| pace.is_due(now)) {
            return false;
        }
        if let Some((since, step)) = self.since {
            let rate = global_step.saturating_sub(step) as f32 / (now - since).as_secs_f32();
            summaries.scalar(global_step, "global_step/sec", rate);
        }
        self.since = Some((now, global_step));
        true
    }
}

/// The chief's services; other tasks have none that do anything.
pub(crate) struct Services {
    keeper: Option<Keeper>,
    pub(crate) summaries: Arc<SummaryWriter>,
    rate: Rate,
}

impl Services {
    /// Of a task that keeps nothing.
    pub(crate) fn none() -> Self {
        Self { keeper: None, summaries: Arc::new(SummaryWriter::none()), rate: Rate { pace: None, since: None } }
    }

    /// Of a chief with a run directory. `pace`: how often loss and rate are written, if at all.
    pub(crate) fn new(keeper: Keeper, summaries: Arc<SummaryWriter>, pace: Option<Timer>) -> Self {
        Self { keeper: Some(keeper), summaries, rate: Rate { pace, since: None } }
    }

    /// Takes note of a step: tells the keeper, and writes the summaries if it is time.
    pub(crate) fn stepped(&mut self, global_step: u64, loss: f32) {
        if let Some(keeper) = &self.keeper {
            keeper.reached(global_step);
        }
        if self.rate.write(&self.summaries, global_step) {
            self.summaries.scalar(global_step, "loss", loss);
        }
    }

    /// For a chief that does not train itself: what writes down how training goes, for another thread.
    pub(crate) fn follow(&mut self, follow: Follow) -> Watch {
        if let Some(keeper) = &self.keeper {
            keeper.follow(follow);
        }
        let rate = Rate { pace: self.rate.pace.take(), since: None };
        Watch { summaries: Arc::clone(&self.summaries), rate }
    }

    /// Saves now, if something is kept, and waits for it.
    pub(crate) fn save_within(&self, deadline: Duration) -> Result<()> {
        self.keeper.as_ref().map_or(Ok(()), |keeper| keeper.save(deadline))
    }

    pub(crate) fn newest(&self) -> Option<Saved> {
        self.keeper.as_ref().and_then(Keeper::newest)
    }
}

/// Writes down how training goes.
pub(crate) struct Watch {
    summaries: Arc<SummaryWriter>,
    rate: Rate,
}

impl Watch {
    /// Training has come so far; `staleness` counts updates by their age.
    pub(crate) fn reached(&mut self, global_step: u64, staleness: &[u64]) {
        if self.rate.write(&self.summaries, global_step) {
            self.summaries.counts(global_step, "staleness", staleness);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_fires_at_once_and_then_at_its_pace() {
        let start = Instant::now();
        let mut timer = Timer::new(Duration::from_secs(10));
        let due: Vec<bool> =
            [0, 1, 9, 10, 11, 20].iter().map(|&s| timer.is_due(start + Duration::from_secs(s))).collect();
        assert_eq!(due, [true, false, false, true, false, true]);
    }
}
