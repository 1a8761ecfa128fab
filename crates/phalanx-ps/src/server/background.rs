//! Work on a background thread, whose outcome any number of callers can wait for, each for a limited time.

use super::lock;
use phalanx_base::{Code, Context, Result};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

/// Background work and, once it ends, its outcome.
pub(crate) struct Background<T> {
    outcome: Mutex<Option<Result<T>>>,
    done: Notify,
}

impl<T: Clone + Send + 'static> Background<T> {
    /// Starts `work` on a thread with this name.
    pub(super) fn start(name: &str, work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<Arc<Self>> {
        let background = Arc::new(Self { outcome: Mutex::default(), done: Notify::new() });
        let shared = Arc::clone(&background);
        let run = move || {
            let outcome = work();
            *lock(&shared.outcome) = Some(outcome);
            shared.done.notify_waiters();
        };
        let thread = std::thread::Builder::new().name(name.into()).spawn(run);
        thread.context(Code::Internal, format!("no thread can be started to {name}"))?;
        Ok(background)
    }

    /// Returns the outcome, if the work has ended.
    pub(super) fn outcome(&self) -> Option<Result<T>> {
        lock(&self.outcome).clone()
    }

    /// Waits for the outcome, at most for `wait`.
    pub(super) async fn wait(&self, wait: Duration) -> Option<Result<T>> {
        let done = self.done.notified();
        tokio::pin!(done);
        // Listen before looking.
        done.as_mut().enable();
        if let Some(outcome) = self.outcome() {
            return Some(outcome);
        }
        let _ = tokio::time::timeout(wait, done).await;
        self.outcome()
    }
}
