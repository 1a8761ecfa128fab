//! The state of the job, as this task knows it.

use crate::Interrupt;
use phalanx_base::{Error, Incarnation, Result, TaskId};
use phalanx_cluster::Phase;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

struct State {
    phase: Phase,
    failure: Option<Error>,
    lost: Vec<(TaskId, Incarnation)>,
    ever_lost: Vec<(TaskId, Incarnation)>,
    returned: Vec<TaskId>,
    /// Whether a parameter server is lost, and the chief waits for it.
    server_absent: bool,
    /// Whether this task was killed, and tells nobody.
    killed: bool,
}

/// The state of the job, as this task knows it. The membership thread writes it.
pub(crate) struct Job {
    state: Mutex<State>,
    changed: Condvar,
    interrupt: Interrupt,
}

impl Job {
    pub(crate) fn new(interrupt: Interrupt) -> Self {
        let (lost, ever_lost, returned) = (Vec::new(), Vec::new(), Vec::new());
        let phase = Phase::Forming;
        let (server_absent, killed) = (false, false);
        let state = Mutex::new(State { phase, failure: None, lost, ever_lost, returned, server_absent, killed });
        Self { state, changed: Condvar::new(), interrupt }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the phase. A job that is ending never goes back; before that, a new chief may form it again.
    pub(crate) fn set_phase(&self, phase: Phase) {
        let mut state = self.lock();
        if state.phase < Phase::Ending {
            state.phase = phase;
        } else {
            state.phase = state.phase.max(phase);
        }
        self.changed.notify_all();
    }

    pub(crate) fn fail(&self, error: Error) {
        self.lock().failure.get_or_insert(error);
        self.set_phase(Phase::Over);
    }

    /// Ends the job for this task alone, which was killed.
    pub(crate) fn kill(&self, error: Error) {
        self.lock().killed = true;
        self.fail(error);
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.lock().killed
    }

    pub(crate) fn record_failure(&self, error: Error) {
        self.lock().failure.get_or_insert(error);
    }

    pub(crate) fn phase(&self) -> Phase {
        self.lock().phase
    }

    pub(crate) fn failure(&self) -> Option<Error> {
        self.lock().failure.clone()
    }

    pub(crate) fn add_lost(&self, lost: Vec<(TaskId, Incarnation)>) {
        let mut state = self.lock();
        state.ever_lost.extend(&lost);
        state.lost.extend(lost);
    }

    /// Returns every incarnation that was declared lost: a server that returns fences them, too.
    pub(crate) fn ever_lost(&self) -> Vec<(TaskId, Incarnation)> {
        self.lock().ever_lost.clone()
    }

    pub(crate) fn record_servers(&self, returned: Vec<TaskId>, absent: bool) {
        let mut state = self.lock();
        state.returned.extend(returned);
        state.server_absent = absent;
    }

    /// Returns whether a parameter server is lost, or is back and not restored.
    pub(crate) fn lacks_a_server(&self) -> bool {
        let state = self.lock();
        state.server_absent || !state.returned.is_empty()
    }

    /// Takes the servers that were started again and hold nothing.
    pub(crate) fn take_returned(&self) -> Vec<TaskId> {
        std::mem::take(&mut self.lock().returned)
    }

    pub(crate) fn take_lost(&self) -> Vec<(TaskId, Incarnation)> {
        std::mem::take(&mut self.lock().lost)
    }

    pub(crate) fn interrupted(&self) -> Option<Error> {
        self.interrupt.error()
    }

    /// Returns whether trainers should stop.
    pub(crate) fn should_stop(&self) -> bool {
        self.phase() >= Phase::Ending || self.interrupted().is_some()
    }

    /// Waits until the job is over, for at most `longest`.
    pub(crate) fn wait_until_over(&self, longest: Duration) {
        let until = Instant::now() + longest;
        let mut state = self.lock();
        while state.phase != Phase::Over && Instant::now() < until {
            let waited = self.changed.wait_timeout(state, Duration::from_millis(100));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until the job is in `phase` or beyond. The membership thread bounds the wait: it fails the job when the formation
    /// deadline or the chief's grace period is over.
    pub(crate) fn wait_for(&self, phase: Phase) -> Result<Phase> {
        let mut state = self.lock();
        loop {
            if let Some(error) = self.interrupted() {
                return Err(error);
            }
            // A job that failed while forming will not run. A caller that waits for its end waits until it is over.
            let hopeless = state.phase == Phase::Over || (state.phase == Phase::Ending && phase <= Phase::Running);
            if let Some(failure) = state.failure.clone().filter(|_| hopeless) {
                return Err(failure);
            }
            if state.phase >= phase {
                return Ok(state.phase);
            }
            let waited = self.changed.wait_timeout(state, Duration::from_millis(100));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
