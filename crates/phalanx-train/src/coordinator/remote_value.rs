//! The future result of a step.

use super::codec::decode;
use super::state::CoordinatorState;
use bytes::Bytes;
use phalanx_base::{Code, Error, Result};
use phalanx_cluster::schedule::{StepId, StepOutcome};
use serde::de::DeserializeOwned;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The future result of a scheduled step, of type `T`. Block on it with [`fetch`](Self::fetch), or await it.
pub struct RemoteValue<T> {
    step: Arc<ScheduledStep>,
    result: PhantomData<fn() -> T>,
}

struct ScheduledStep {
    id: StepId,
    state: Arc<CoordinatorState>,
}

impl Drop for ScheduledStep {
    fn drop(&mut self) {
        // Nobody can ask for the result any more. The step still runs.
        self.state.lock().forget(self.id);
    }
}

impl<T> Clone for RemoteValue<T> {
    fn clone(&self) -> Self {
        Self { step: Arc::clone(&self.step), result: PhantomData }
    }
}

impl<T> RemoteValue<T> {
    pub(super) fn new(id: StepId, state: Arc<CoordinatorState>) -> Self {
        Self { step: Arc::new(ScheduledStep { id, state }), result: PhantomData }
    }

    /// Returns the number of the step.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.step.id.0
    }

    /// Waits for the result.
    ///
    /// # Errors
    /// The error of the step; that it was cancelled before it started; or that its outcome is unknown, because the job ended.
    pub fn fetch(&self) -> Result<T>
    where
        T: DeserializeOwned,
    {
        self.fetch_within(Duration::from_secs(u64::from(u32::MAX)))
    }

    /// Waits for the result, for at most `longest`.
    ///
    /// # Errors
    /// As [`Self::fetch`], and when the time is over.
    pub fn fetch_within(&self, longest: Duration) -> Result<T>
    where
        T: DeserializeOwned,
    {
        decode("the result of a step", &self.wait(longest)?)
    }

    /// Waits for the bytes of the result.
    fn wait(&self, longest: Duration) -> Result<Bytes> {
        let until = Instant::now() + longest;
        let mut queue = self.step.state.lock();
        loop {
            if let Some(result) = queue.outcome(self.step.id).map(|outcome| self.read(outcome)) {
                return result;
            }
            self.step.state.check()?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::new(Code::OutcomeUnknown, format!("step {} is not done yet", self.id()))
                    .because(format!("{:.1} s were waited", longest.as_secs_f32())));
            }
            queue = self.step.state.wait(queue, left.min(Duration::from_millis(200)));
        }
    }

    /// Returns whether the result is available.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.step.state.lock().outcome(self.step.id).is_some()
    }

    /// Cancels the step, if no worker ever had it, and returns whether it did. A step that runs cannot be cancelled.
    pub fn cancel(&self) -> bool {
        let cancelled = self.step.state.lock().cancel(self.step.id);
        self.step.state.notify_changed();
        cancelled
    }

    fn read(&self, outcome: &StepOutcome<Bytes>) -> Result<Bytes> {
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

impl<T: DeserializeOwned + 'static> IntoFuture for RemoteValue<T> {
    type Output = Result<T>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            loop {
                // Listen before looking, or a result that comes in between would be missed.
                let finished = self.step.state.finished.notified();
                let result = self.step.state.lock().outcome(self.step.id).map(|outcome| self.read(outcome));
                if let Some(result) = result {
                    return decode("the result of a step", &result?);
                }
                self.step.state.check()?;
                finished.await;
            }
        })
    }
}

impl<T> std::fmt::Debug for RemoteValue<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteValue").field("step", &self.id()).field("done", &self.is_done()).finish()
    }
}
