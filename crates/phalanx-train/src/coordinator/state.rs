//! The state that the chief's threads share: the scheduler, and the signals that it has changed.

use super::StepFunctions;
use super::metrics::MetricSums;
use bytes::Bytes;
use phalanx_base::{Error, Result};
use phalanx_cluster::schedule::{Scheduler, SchedulerOptions};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What a worker is to do.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Work {
    /// The position in which the step was registered.
    pub(super) function: usize,
    pub(super) argument: Bytes,
}

pub(super) type Queue = Scheduler<Work, Bytes>;

pub(crate) struct CoordinatorState {
    /// The chief's incarnation, which names the coordinator.
    pub(super) coordinator: u64,
    pub(super) options: SchedulerOptions,
    /// The committed steps that were reported here, or the rounds that were closed, and those before this coordinator.
    pub(super) committed: Arc<AtomicU64>,
    /// What the chief has registered: the same as every worker.
    pub(super) registered: Vec<String>,
    /// Locked after the queue, where both are.
    pub(super) metrics: MetricSums,
    queue: Mutex<Queue>,
    /// Something was reported, or lost.
    changed: Condvar,
    /// The same, for futures.
    pub(super) finished: tokio::sync::Notify,
    /// Steps may be handed out, for the calls that are held.
    work: tokio::sync::Notify,
    began: Instant,
    /// Why the job cannot go on.
    failure: Mutex<Option<Error>>,
    /// Why workers were refused, to be logged.
    refused: Mutex<Vec<Error>>,
}

impl CoordinatorState {
    pub(super) fn new<M>(
        coordinator: u64,
        options: SchedulerOptions,
        committed: u64,
        steps: &StepFunctions<M>,
    ) -> Self {
        Self {
            coordinator,
            options,
            registered: steps.describe(),
            metrics: MetricSums::new(steps.metrics()),
            committed: Arc::new(AtomicU64::new(committed)),
            queue: Mutex::new(Scheduler::new(options)),
            changed: Condvar::new(),
            finished: tokio::sync::Notify::new(),
            work: tokio::sync::Notify::new(),
            began: Instant::now(),
            failure: Mutex::new(None),
            refused: Mutex::default(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Signals that steps may have ended.
    pub(super) fn notify_changed(&self) {
        self.changed.notify_all();
        self.finished.notify_waiters();
    }

    /// Signals that steps may be handed out.
    pub(super) fn notify_work(&self) {
        self.work.notify_waiters();
    }

    pub(super) fn work(&self) -> impl Future<Output = ()> + '_ {
        self.work.notified()
    }

    /// Waits until something changes, for at most `longest`.
    pub(super) fn wait<'a>(&self, queue: MutexGuard<'a, Queue>, longest: Duration) -> MutexGuard<'a, Queue> {
        self.changed.wait_timeout(queue, longest).unwrap_or_else(PoisonError::into_inner).0
    }

    pub(super) fn fail(&self, error: Error) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.notify_changed();
    }

    /// Keeps why a worker was refused, until it is logged.
    pub(super) fn refuse(&self, error: Error) {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).push(error);
    }

    pub(super) fn take_refused(&self) -> Vec<Error> {
        std::mem::take(&mut self.refused.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Fails if the job cannot go on.
    pub(super) fn check(&self) -> Result<()> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
        failure.map_or(Ok(()), Err)
    }
}
