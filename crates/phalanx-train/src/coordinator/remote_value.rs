//! A step's result that may not be there yet.

use super::shared::Shared;
use phalanx_base::{Code, Error, Result};
use phalanx_cluster::schedule::{Outcome, StepId};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The result of a step that was scheduled. It can be waited for ([`fetch`](Self::fetch)) or awaited.
#[derive(Clone)]
pub struct RemoteValue(Arc<Inner>);

struct Inner {
    step: StepId,
    shared: Arc<Shared>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Nobody can ask for the result any more: it need not be kept. The step still runs.
        self.shared.lock().forget(self.step);
    }
}

impl RemoteValue {
    pub(super) fn new(step: StepId, shared: Arc<Shared>) -> Self {
        Self(Arc::new(Inner { step, shared }))
    }

    /// The number of the step.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.0.step.0
    }

    /// Waits for the result.
    ///
    /// # Errors
    /// What the step returned; that it was cancelled before it started; or that nobody can know whether it ran, because
    /// the job ended.
    pub fn fetch(&self) -> Result<Vec<f64>> {
        self.fetch_within(Duration::from_secs(u64::from(u32::MAX)))
    }

    /// The same, but not for longer than that.
    ///
    /// # Errors
    /// As [`Self::fetch`], and when the time is over.
    pub fn fetch_within(&self, longest: Duration) -> Result<Vec<f64>> {
        let until = Instant::now() + longest;
        let mut queue = self.0.shared.lock();
        loop {
            if let Some(result) = queue.outcome(self.0.step).map(|outcome| self.read(outcome)) {
                return result;
            }
            self.0.shared.check()?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::new(Code::OutcomeUnknown, format!("step {} is not done yet", self.id()))
                    .because(format!("{:.1} s were waited", longest.as_secs_f32())));
            }
            queue = self.0.shared.wait(queue, left.min(Duration::from_millis(200)));
        }
    }

    /// Whether the result is there.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.0.shared.lock().outcome(self.0.step).is_some()
    }

    /// Takes the step out of the queue, if no worker ever had it; answers whether. A step that runs cannot be called back.
    pub fn cancel(&self) -> bool {
        let cancelled = self.0.shared.lock().cancel(self.0.step);
        self.0.shared.notify_changed();
        cancelled
    }

    fn read(&self, outcome: &Outcome<Vec<f64>>) -> Result<Vec<f64>> {
        let step = self.id();
        match outcome {
            Outcome::Ok(result) => Ok(result.clone()),
            Outcome::Failed { error, .. } => Err(error.clone()),
            Outcome::Cancelled => {
                Err(Error::new(Code::Cancelled, format!("step {step} was cancelled before it started"))
                    .because("another step failed, or somebody cancelled what was waiting"))
            }
            Outcome::Unknown => {
                Err(Error::new(Code::OutcomeUnknown, format!("what became of step {step} is not known"))
                    .because("the job ended before its worker said so"))
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
                let finished = self.0.shared.finished.notified();
                if let Some(result) = self.0.shared.lock().outcome(self.0.step).map(|outcome| self.read(outcome)) {
                    return result;
                }
                self.0.shared.check()?;
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
