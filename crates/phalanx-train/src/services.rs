//! What the chief does beside training: save checkpoints and write summaries, each at its own interval.

use crate::checkpoint::{CheckpointManager, Saved, StepSource};
use crate::summary::{SummarySchedule, SummaryWriter};
use phalanx_base::Result;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A timer that fires at a fixed interval.
#[derive(Debug)]
pub(crate) struct Timer {
    every: Duration,
    next: Instant,
}

impl Timer {
    /// A timer that fires after `first`.
    pub(crate) fn after(first: Duration, every: Duration) -> Self {
        Self { every, next: Instant::now() + first }
    }

    /// Returns whether it is time.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        let due = now >= self.next;
        if due {
            self.next = now + self.every;
        }
        due
    }
}

/// The chief's services; those of other tasks do nothing.
pub(crate) struct Services {
    checkpoints: Option<CheckpointManager>,
    pub(crate) summaries: Arc<SummaryWriter>,
    schedule: SummarySchedule,
    /// Whether the values of variables are written, too.
    pub(crate) histograms: bool,
}

impl Services {
    /// Services that do nothing.
    pub(crate) fn none() -> Self {
        let summaries = Arc::new(SummaryWriter::none());
        Self { checkpoints: None, summaries, schedule: SummarySchedule::new(None), histograms: false }
    }

    /// The services of a chief with a run directory.
    pub(crate) fn new(
        checkpoints: CheckpointManager,
        summaries: Arc<SummaryWriter>,
        schedule: SummarySchedule,
        histograms: bool,
    ) -> Self {
        Self { checkpoints: Some(checkpoints), summaries, schedule, histograms }
    }

    /// Passes a step on to the checkpoint manager.
    pub(crate) fn stepped(&mut self, global_step: u64) {
        if let Some(checkpoints) = &self.checkpoints {
            checkpoints.reached(global_step);
        }
    }

    /// Returns whether the summaries of a step are due.
    pub(crate) fn summaries_are_due(&self, global_step: u64) -> bool {
        self.schedule.is_due(Instant::now(), global_step)
    }

    /// Writes the rate of training. The rest of the step's summaries comes with it.
    pub(crate) fn write_rate(&mut self, global_step: u64) {
        write_rate(&mut self.schedule, &self.summaries, global_step);
    }

    /// Takes the global step from `follow` instead, for a chief that does not train itself. Returns the writer of progress,
    /// for another thread.
    pub(crate) fn follow(&self, follow: StepSource) -> ProgressWriter {
        if let Some(checkpoints) = &self.checkpoints {
            checkpoints.follow(follow);
        }
        ProgressWriter { summaries: Arc::clone(&self.summaries), schedule: self.schedule.again() }
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
    schedule: SummarySchedule,
}

impl ProgressWriter {
    /// Writes that training has reached `global_step`; `staleness` counts updates by their age.
    pub(crate) fn reached(&mut self, global_step: u64, staleness: &[u64]) {
        if self.schedule.is_due(Instant::now(), global_step) {
            write_rate(&mut self.schedule, &self.summaries, global_step);
            self.summaries.counts(global_step, "staleness", staleness);
        }
    }
}

fn write_rate(schedule: &mut SummarySchedule, summaries: &SummaryWriter, global_step: u64) {
    if let Some(rate) = schedule.written(Instant::now(), global_step) {
        summaries.scalar(global_step, "global_step/sec", rate);
    }
}
