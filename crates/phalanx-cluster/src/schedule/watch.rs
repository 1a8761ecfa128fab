//! Who is slow, and who stands still.

use super::{Life, Scheduler, StepId};
use std::time::Duration;

/// How a worker is doing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorkerView {
    /// Who.
    pub life: Life,
    /// Steps it has committed.
    pub committed: u64,
    /// Steps it has and has not reported.
    pub in_flight: usize,
    /// How long it has been at its oldest step.
    pub lag: Option<Duration>,
    /// Steps per second, over its last 32.
    pub rate: f64,
    /// Whether it is lost and waits to be fenced.
    pub lost: bool,
}

/// A worker that has been at one step for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stalled {
    /// Who.
    pub life: Life,
    /// At which step.
    pub step: StepId,
    /// For how long.
    pub lag: Duration,
}

impl std::fmt::Display for Stalled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} has been standing still at {} for {:.1} s", self.life.task, self.step, self.lag.as_secs_f32())
    }
}

impl<W: Clone, R> Scheduler<W, R> {
    /// How every worker is doing.
    pub fn workers(&self, now: Duration) -> impl Iterator<Item = WorkerView> {
        self.workers.iter().map(move |(&life, worker)| WorkerView {
            life,
            committed: worker.committed,
            in_flight: worker.held.len(),
            lag: (!worker.held.is_empty()).then(|| now.saturating_sub(worker.oldest_since)),
            rate: worker.rate(now),
            lost: worker.lost,
        })
    }

    /// The workers that have been at one step for longer than the watchdog allows, each told once for each step.
    pub fn standing_still(&mut self, now: Duration) -> Vec<Stalled> {
        let Some(deadline) = self.options.watchdog else { return Vec::new() };
        let mut stalled = Vec::new();
        for (&life, worker) in self.workers.iter_mut().filter(|(_, worker)| !worker.lost) {
            let lag = now.saturating_sub(worker.oldest_since);
            let Some(mut oldest) = worker.held.first_entry() else { continue };
            if lag > deadline && !std::mem::replace(&mut oldest.get_mut().told, true) {
                stalled.push(Stalled { life, step: oldest.get().step, lag });
            }
        }
        stalled
    }
}
