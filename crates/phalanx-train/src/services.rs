//! What the chief does beside training: save checkpoints and write summaries, each at its own interval.

use crate::checkpoint::{CheckpointManager, Saved, StepSource};
use crate::summary::SummaryWriter;
use phalanx_base::Result;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A timer that fires at once and then at a fixed interval.
#[derive(Debug)]
pub(crate) struct Timer {
    every: Duration,
    next: Option<Instant>,
}

impl Timer {
    pub(crate) fn new(every: Duration) -> Self {
        Self { every, next: None }
    }

    /// A timer that fires after `first`, not at once.
    pub(crate) fn after(first: Duration, every: Duration) -> Self {
        Self { every, next: Some(Instant::now() + first) }
    }

    /// Returns whether it is time. The first call returns `true`, as TensorFlow's services fire when they start.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        let due = self.next.is_none_or(|next| now >= next);
        if due {
            self.next = Some(now + self.every);
        }
        due
    }
}

/// Writes the rate of training at an interval.
struct Rate {
    timer: Option<Timer>,
    since: Option<(Instant, u64)>,
}

impl Rate {
    /// Writes the rate since the last time, if it is time; returns whether it was.
    fn write(&mut self, summaries: &SummaryWriter, global_step: u64) -> bool {
        let now = Instant::now();
        if !self.timer.as_mut().is_some_and(|timer| timer.is_due(now)) {
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

/// The chief's services; those of other tasks do nothing.
pub(crate) struct Services {
    checkpoints: Option<CheckpointManager>,
    pub(crate) summaries: Arc<SummaryWriter>,
    rate: Rate,
}

impl Services {
    /// Services that do nothing.
    pub(crate) fn none() -> Self {
        Self { checkpoints: None, summaries: Arc::new(SummaryWriter::none()), rate: Rate { timer: None, since: None } }
    }

    /// The services of a chief with a run directory. `timer`: how often loss and rate are written, if at all.
    pub(crate) fn new(checkpoints: CheckpointManager, summaries: Arc<SummaryWriter>, timer: Option<Timer>) -> Self {
        Self { checkpoints: Some(checkpoints), summaries, rate: Rate { timer, since: None } }
    }

    /// Passes a step on to the checkpoint manager, and writes summaries if it is time.
    pub(crate) fn stepped(&mut self, global_step: u64, loss: f32) {
        if let Some(checkpoints) = &self.checkpoints {
            checkpoints.reached(global_step);
        }
        if self.rate.write(&self.summaries, global_step) {
            self.summaries.scalar(global_step, "loss", loss);
        }
    }

    /// Takes the global step from `follow` instead, for a chief that does not train itself. Returns the writer of progress,
    /// for another thread.
    pub(crate) fn follow(&mut self, follow: StepSource) -> ProgressWriter {
        if let Some(checkpoints) = &self.checkpoints {
            checkpoints.follow(follow);
        }
        let rate = Rate { timer: self.rate.timer.take(), since: None };
        ProgressWriter { summaries: Arc::clone(&self.summaries), rate }
    }

    /// Saves now, if there is a run directory, and waits for it.
    pub(crate) fn save_within(&self, deadline: Duration) -> Result<()> {
        self.checkpoints.as_ref().map_or(Ok(()), |checkpoints| checkpoints.save(deadline))
    }

    pub(crate) fn newest(&self) -> Option<Saved> {
        self.checkpoints.as_ref().and_then(CheckpointManager::newest)
    }
}

/// Writes the progress of training as summaries.
pub(crate) struct ProgressWriter {
    summaries: Arc<SummaryWriter>,
    rate: Rate,
}

impl ProgressWriter {
    /// Writes that training has reached `global_step`; `staleness` counts updates by their age.
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
    fn a_timer_fires_at_once_and_then_at_its_interval() {
        let start = Instant::now();
        let mut timer = Timer::new(Duration::from_secs(10));
        let due: Vec<bool> =
            [0, 1, 9, 10, 11, 20].iter().map(|&s| timer.is_due(start + Duration::from_secs(s))).collect();
        assert_eq!(due, [true, false, false, true, false, true]);
    }
}
