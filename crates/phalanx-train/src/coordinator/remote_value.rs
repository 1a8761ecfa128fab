//! The future result of a step.

use super::state::CoordinatorState;
use phalanx_base::{Code, Error, Result};
use phalanx_cluster::schedule::{StepId, StepOutcome};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The future result of a scheduled step. Block on it with [`fetch`](Self::fetch), or await it.
#[derive(Clone)]
pub struct RemoteValue(Arc<Inner>);

struct Inner {
    step: StepId,
    state: Arc<CoordinatorState>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Nobody can ask for the result any more. The step still runs.
        self.state.lock().forget(self.step);
    }
}

impl RemoteValue {
    pub(super) fn new(step: StepId, state: Arc<CoordinatorState>) -> Self {
        Self(Arc::new(Inner { step, state }))
    }

    /// Returns the number of the step.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.0.step.0
    }

    /// Waits for the result.
    ///
    /// # Errors
    /// The error of the step; that it was cancelled before it started; or that its outcome is unknown, because the job ended.
    pub fn fetch(&self) -> Result<Vec<f64>> {
        self.fetch_within(Duration::from_secs(u64::from(u32::MAX)))
    }

    /// Waits for the result, for at most `longest`.
    ///
    /// # Errors
    /// As [`Self::fetch`], and when the time is over.
    pub fn fetch_within(&self, longest: Duration) -> Result<Vec<f64>> {
        let until = Instant::now() + longest;
        let mut queue = self.0.state.lock();
        loop {
            if let Some(result) = queue.outcome(self.0.step).map(|outcome| self.read(outcome)) {
                return result;
            }
            self.0.state.check()?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::new(Code::OutcomeUnknown, format!("step {} is not done yet", self.id()))
                    .because(format!("{:.1} s were waited", longest.as_secs_f32())));
            }
            queue = self.0.state.wait(queue, left.min(Duration::from_millis(200)));
        }
    }

    /// Returns whether the result is available.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.0.state.lock().outcome(self.0.step).is_some()
    }

    /// Cancels the step, if no worker ever had it, and returns whether it did. A step that runs cannot be cancelled.
    pub fn cancel(&self) -> bool {
        let cancelled = self.0.state.lock().cancel(self.0.step);
        self.0.state.notify_changed();
        cancelled
    }

    fn read(&self, outcome: &StepOutcome<Vec<f64>>) -> Result<Vec<f64>> {
        let step = self.id();
        match outcome {
            StepOutcome::Ok(result) => Ok(result.clone()),
            StepOutcome::Failed { error, .. } => Err(error.clone()),
            StepOutcome::Cancelled => {
                Err(Error::new(Code::Cancelled, format!("step {step} was cancelled before it started"))
                    .because("another step failed, or it was cancelled while it waited"))
            }
            StepOutcome::Unknown => {
                Err(Error::new(Code::OutcomeUnknown, format!("the outcome of step {step} is not known"))
                    .because("the job ended before its worker reported it"))
            }
        }
    }
}

impl IntoFuture for RemoteValue {
    type Output = Result<Vec<f64>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            loop {
                // Listen before looking, or a result that comes in between would be missed.
                let finished = self.0.state.finished.notified();
                if let Some(result) = self.0.state.lock().outcome(self.0.step).map(|outcome| self.read(outcome)) {
                    return result;
                }
                self.0.state.check()?;
                finished.await;
            }
        })
    }
}

impl std::fmt::Debug for RemoteValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteValue").field("step", &self.id()).field("done", &self.is_done()).finish()
    }
}
