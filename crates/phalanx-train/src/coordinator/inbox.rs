//! What a worker's two threads share: steps that have come, and reports that are to go.

use phalanx_base::{Error, Result};
use phalanx_wire::proto::coordinate::{Assignment, Report};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The longest anybody sleeps before looking around.
const NAP: Duration = Duration::from_millis(200);

/// How soon a worker that is busy asks again when there was nothing to get.
const ASK_AGAIN: Duration = Duration::from_millis(20);

/// What a worker does next.
pub(super) enum Next {
    Step(Assignment),
    /// Another coordinator has taken over: finish what is being pushed, then say so.
    Renew,
    /// There will be no more steps.
    Over,
}

#[derive(Default)]
pub(super) struct Inbox {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    steps: VecDeque<Assignment>,
    /// Not answered yet; the oldest first.
    reports: Vec<Report>,
    over: bool,
    /// The worker waits for something to do.
    idle: bool,
    /// The worker is done and wants its last reports to be sent.
    leaving: bool,
    /// Another coordinator has taken over.
    renew: bool,
    /// How many updates the worker had pushed when it had finished the last of them.
    settled: Option<u64>,
    error: Option<Error>,
}

impl State {
    fn next(&mut self) -> Option<Next> {
        if std::mem::take(&mut self.renew) {
            return Some(Next::Renew);
        }
        let step = self.steps.pop_front().map(Next::Step);
        step.or_else(|| self.over.then_some(Next::Over))
    }
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn nap<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait_timeout(state, NAP).unwrap_or_else(PoisonError::into_inner).0
    }

    /// The worker: how a step ended.
    pub(super) fn report(&self, report: Report) {
        self.lock().reports.push(report);
        self.changed.notify_all();
    }

    /// The worker: what is to be done, if that is known already.
    pub(super) fn try_next(&self) -> Option<Next> {
        let mut state = self.lock();
        let next = if state.error.is_some() { None } else { state.next() };
        self.changed.notify_all();
        next
    }

    /// The worker: waits for something to do.
    pub(super) fn next(&self) -> Result<Next> {
        let mut state = self.lock();
        loop {
            if let Some(error) = state.error.take() {
                return Err(error);
            }
            if let Some(next) = state.next() {
                state.idle = false;
                self.changed.notify_all();
                return Ok(next);
            }
            if !std::mem::replace(&mut state.idle, true) {
                self.changed.notify_all();
            }
            state = self.nap(state);
        }
    }

    /// The worker: waits until every report was answered, or nobody will answer.
    pub(super) fn wait_until_answered(&self) -> Result<()> {
        let mut state = self.lock();
        while !state.reports.is_empty() && !state.over {
            if let Some(error) = state.error.take() {
                return Err(error);
            }
            state = self.nap(state);
        }
        Ok(())
    }

    /// The worker: all that it ever pushed is on every server.
    pub(super) fn settled(&self, sent: u64) {
        self.lock().settled = Some(sent);
        self.changed.notify_all();
    }

    /// The worker goes.
    pub(super) fn leave(&self) {
        self.lock().leaving = true;
        self.changed.notify_all();
    }

    /// The asker: waits until there is something to say or to ask for. What is to be said, whether the worker has nothing
    /// to do, and whether it goes. `refused`: there was nothing to get a moment ago.
    pub(super) fn wait_to_ask(
        &self,
        in_flight: usize,
        refused: bool,
        stopping: &dyn Fn() -> bool,
    ) -> (Vec<Report>, bool, bool) {
        let again = Instant::now() + if refused { ASK_AGAIN } else { Duration::ZERO };
        let mut state = self.lock();
        loop {
            if stopping() {
                state.over = true;
                self.changed.notify_all();
            }
            let left = again.saturating_duration_since(Instant::now());
            // Half empty is soon enough to ask for more: one call for several steps.
            let wants = state.idle || (left.is_zero() && state.steps.len() <= in_flight / 2);
            if state.leaving || !state.reports.is_empty() || wants {
                return (state.reports.clone(), state.idle, state.leaving);
            }
            let longest = if left.is_zero() { NAP } else { left };
            state = self.changed.wait_timeout(state, longest).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The asker: the coordinator has heard the oldest reports, and gives these steps.
    pub(super) fn answered(&self, reports: usize, steps: Vec<Assignment>, over: bool) {
        let mut state = self.lock();
        state.reports.drain(..reports);
        // The worker has something to do from now on, not only when it has woken up.
        state.idle &= steps.is_empty();
        state.steps.extend(steps);
        state.over |= over;
        self.changed.notify_all();
    }

    /// The asker: another coordinator answers. What the former one gave and wants to hear is dropped. Waits until the
    /// worker has finished what it was pushing; how many updates it has pushed then, or `None` where it goes.
    pub(super) fn renew(&self, stopping: &dyn Fn() -> bool) -> Option<u64> {
        let mut state = self.lock();
        state.steps.clear();
        state.reports.clear();
        state.settled = None;
        state.renew = true;
        self.changed.notify_all();
        loop {
            if let Some(sent) = state.settled.take() {
                // What it reported while it finished was about the former one's steps.
                state.reports.clear();
                return Some(sent);
            }
            if state.leaving || stopping() {
                return None;
            }
            state = self.nap(state);
        }
    }

    /// The asker: it cannot go on.
    pub(super) fn fail(&self, error: Error) {
        self.lock().error = Some(error);
        self.changed.notify_all();
    }

    /// The asker: nobody asks any more.
    pub(super) fn close(&self) {
        self.lock().over = true;
        self.changed.notify_all();
    }
}
