//! Slow and stalled workers.

use super::{Scheduler, StepId, TaskIncarnation};
use std::time::Duration;

/// The progress of a worker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorkerView {
    /// The worker.
    pub worker_id: TaskIncarnation,
    /// The number of its committed steps.
    pub committed: u64,
    /// The number of its unreported steps.
    pub in_flight: usize,
    /// How long it has been at its oldest step.
    pub lag: Option<Duration>,
    /// Steps per second over its last 32 steps.
    pub rate: f64,
    /// Whether it is lost and waits to be fenced.
    pub lost: bool,
}

/// A worker that has been at one step for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stalled {
    /// The worker.
    pub worker_id: TaskIncarnation,
    /// The step.
    pub step: StepId,
    /// How long it has been at it.
    pub lag: Duration,
}

impl std::fmt::Display for Stalled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} has been stalled at {} for {:.1} s", self.worker_id.task, self.step, self.lag.as_secs_f32())
    }
}

impl<W: Clone, R> Scheduler<W, R> {
    /// Returns the progress of every worker.
    pub fn workers(&self, now: Duration) -> impl Iterator<Item = WorkerView> {
        self.workers.iter().map(move |(&worker_id, worker)| WorkerView {
            worker_id,
            committed: worker.committed,
            in_flight: worker.held.len(),
            lag: (!worker.held.is_empty()).then(|| now.saturating_sub(worker.oldest_since)),
            rate: worker.rate(now),
            lost: worker.lost,
        })
    }

    /// Returns the workers that have been at one step for longer than the watchdog allows, once for each step.
    pub fn stalled_workers(&mut self, now: Duration) -> Vec<Stalled> {
        let Some(deadline) = self.options.watchdog else { return Vec::new() };
        let mut stalled = Vec::new();
        for (&worker_id, worker) in self.workers.iter_mut().filter(|(_, worker)| !worker.lost) {
            let lag = now.saturating_sub(worker.oldest_since);
            let Some(mut oldest) = worker.held.first_entry() else { continue };
            if lag > deadline && !std::mem::replace(&mut oldest.get_mut().told, true) {
                stalled.push(Stalled { worker_id, step: oldest.get().step, lag });
            }
        }
        stalled
    }
}
