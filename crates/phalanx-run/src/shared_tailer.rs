//! The one reader of a run's files in a process.

use crate::{RunDir, RunState, RunTailer, Setting};
use phalanx_base::{Code, Context, Result};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::Duration;

/// A [`RunTailer`] that a thread polls, shared by everything in a process that shows the run. Its thread ends when the last
/// clone is dropped. A disk that hangs blocks only that thread and
/// callers of [`state`](Self::state).
#[derive(Clone, Debug)]
pub struct SharedTailer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    tailer: Mutex<RunTailer>,
    polls: AtomicU64,
}

impl SharedTailer {
    /// Follows `run`, including its logs if `with_lines` is set, and reads its files at this interval.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(run: &RunDir, with_lines: bool, interval: Duration) -> Result<Self> {
        Self::with_polls(RunTailer::new(run, with_lines), 0, interval)
    }

    /// As [`start`](Self::start), without the logs, and returns when the files have been read once.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start_polled(run: &RunDir, interval: Duration) -> Result<Self> {
        let mut tailer = RunTailer::new(run, false);
        tailer.poll();
        Self::with_polls(tailer, 1, interval)
    }

    fn with_polls(tailer: RunTailer, polls: u64, interval: Duration) -> Result<Self> {
        let shared = Arc::new(Shared { tailer: Mutex::new(tailer), polls: AtomicU64::new(polls) });
        let weak = Arc::downgrade(&shared);
        let poll = move || {
            while let Some(shared) = Weak::upgrade(&weak) {
                shared.lock().poll();
                shared.polls.fetch_add(1, Ordering::Release);
                drop(shared);
                std::thread::sleep(interval);
            }
        };
        let thread = std::thread::Builder::new().name("phalanx-tailer".into()).spawn(poll);
        thread.context(Code::Internal, "the thread that reads the run's files cannot be started")?;
        Ok(Self { shared })
    }

    /// What is known about the run. Waits while files are being read.
    #[must_use]
    pub fn state(&self) -> StateGuard<'_> {
        StateGuard(self.shared.lock())
    }

    /// Reads the logs too, from now on.
    pub fn follow_lines(&self) {
        self.shared.lock().follow_lines();
    }

    /// The settings that the run was started with; see [`RunTailer::settings`].
    #[must_use]
    pub fn settings(&self) -> Vec<Setting> {
        self.shared.lock().settings()
    }

    /// The run.
    #[must_use]
    pub fn run(&self) -> RunDir {
        self.shared.lock().run().clone()
    }

    /// What is known about the run; `None` before the first poll and while files are being read.
    #[must_use]
    pub fn try_state(&self) -> Option<StateGuard<'_>> {
        if self.shared.polls.load(Ordering::Acquire) == 0 {
            return None;
        }
        match self.shared.tailer.try_lock() {
            Ok(tailer) => Some(StateGuard(tailer)),
            Err(TryLockError::Poisoned(poisoned)) => Some(StateGuard(poisoned.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, RunTailer> {
        self.tailer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Access to a [`RunState`]. The files are not read while it exists.
#[derive(Debug)]
pub struct StateGuard<'a>(MutexGuard<'a, RunTailer>);

impl std::ops::Deref for StateGuard<'_> {
    type Target = RunState;

    fn deref(&self) -> &RunState {
        self.0.state()
    }
}
