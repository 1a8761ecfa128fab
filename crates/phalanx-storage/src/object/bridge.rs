//! Lets blocking callers use the asynchronous client.

use phalanx_base::{Code, Error, Result};
use std::future::Future;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// A small runtime of our own. Work is handed to it and waited for over a plain channel, never by entering it: so a
/// caller may be a thread of another runtime, where entering would panic.
pub(crate) struct Bridge {
    /// Taken only by `drop`.
    runtime: Option<Runtime>,
}

impl Bridge {
    pub(crate) fn new() -> Result<Self> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).thread_name("phalanx-storage").enable_all().build();
        let runtime = runtime.map_err(|error| {
            let ours = Error::new(Code::StorageLocation, "cannot start the threads of the object store's client");
            ours.because(error).help("raise the limits of threads and open files (ulimit -u, ulimit -n)")
        })?;
        Ok(Self { runtime: Some(runtime) })
    }

    /// Starts some work.
    pub(crate) fn start<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Pending<T> {
        let (send, answer) = mpsc::sync_channel(1);
        let task = self.runtime.as_ref().map(|runtime| {
            runtime.spawn(async move {
                // Fails if the caller has stopped waiting.
                let _ = send.send(work.await);
            })
        });
        Pending { answer, task }
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // The plain way waits for the threads, which panics on a thread of another runtime.
            runtime.shutdown_background();
        }
    }
}

/// Work that was started. Dropped, it is stopped.
pub(crate) struct Pending<T> {
    answer: Receiver<T>,
    task: Option<JoinHandle<()>>,
}

/// Why there is no answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// The time is over.
    Late(Duration),
    /// The work panicked, or its runtime is gone.
    Lost,
}

impl<T> Pending<T> {
    /// Waits for the answer, for at most `limit`.
    pub(crate) fn wait(self, limit: Duration) -> Result<T, NoAnswer> {
        self.answer.recv_timeout(limit).map_err(|error| match error {
            RecvTimeoutError::Timeout => NoAnswer::Late(limit),
            RecvTimeoutError::Disconnected => NoAnswer::Lost,
        })
    }
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn may_be_used_and_dropped_on_threads_of_another_runtime() {
        let other = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let answer = other.block_on(async {
            let bridge = Bridge::new().expect("a bridge");
            let wait = Duration::from_millis(1);
            bridge.start(async move { tokio::time::sleep(wait).await }).wait(Duration::from_secs(10))
        });
        assert_eq!(answer, Ok(()));
    }

    #[test]
    fn late_and_lost_answers_are_told_apart() {
        let bridge = Bridge::new().expect("a bridge");
        let limit = Duration::from_millis(20);
        assert_eq!(bridge.start(std::future::pending::<()>()).wait(limit), Err(NoAnswer::Late(limit)));
        let broken = bridge.start(async { assert!(bridge_is_fine(), "breaks on purpose") });
        assert_eq!(broken.wait(Duration::from_secs(10)), Err(NoAnswer::Lost));
        assert_eq!(bridge.start(async { 7 }).wait(Duration::from_secs(10)), Ok(7));
    }

    fn bridge_is_fine() -> bool {
        false
    }
}
