//! The queue between a worker's two threads: steps that have come, and reports to be sent.

use super::messages::{AssignedStep, StepReport};
use phalanx_base::{Error, Result};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The longest that a thread waits before it checks whether to stop.
const NAP: Duration = Duration::from_millis(200);

/// How soon a busy worker polls again after the coordinator had no step for it.
const POLL_AGAIN: Duration = Duration::from_millis(20);

/// How long a report that nobody waits for may wait for others to be sent with it.
const HOLD: Duration = Duration::from_millis(5);

/// What a worker does next.
pub(super) enum Next {
    Step(AssignedStep),
    /// Another coordinator has taken over: finish what is being pushed, then call [`StepQueue::settled`].
    Renew,
    /// There will be no more steps.
    Over,
}

/// Steps and reports between the worker and its poller. At thousands of steps a second every wake-up counts: each thread is
/// woken only by what it waits for.
#[derive(Default)]
pub(super) struct StepQueue {
    state: Mutex<State>,
    for_worker: Condvar,
    for_poller: Condvar,
}

#[derive(Default)]
struct State {
    steps: VecDeque<AssignedStep>,
    /// The reports that are not acknowledged, the oldest first, and since when that one waits.
    reports: Vec<StepReport>,
    since: Option<Instant>,
    /// How many steps the worker wants to have.
    window: usize,
    /// Others wait for reports.
    eager: bool,
    over: bool,
    /// The worker waits for something to do.
    idle: bool,
    /// The worker leaves once its last reports are sent.
    leaving: bool,
    /// Another coordinator has taken over.
    renew: bool,
    /// How many updates the worker had pushed when it had finished the last of them.
    settled: Option<u64>,
    error: Option<Error>,
}

/// What the poller sends and asks for.
pub(super) struct PollRequest {
    pub(super) reports: Vec<StepReport>,
    /// How many steps the worker wants to have.
    pub(super) window: usize,
    /// The worker has nothing to do.
    pub(super) idle: bool,
    /// The worker leaves.
    pub(super) leaving: bool,
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

impl StepQueue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn nap<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.for_worker.wait_timeout(state, NAP).unwrap_or_else(PoisonError::into_inner).0
    }

    /// The worker: adds how a step ended, and sets how many steps it wants to have from now on.
    pub(super) fn report(&self, report: StepReport, window: usize) {
        let mut state = self.lock();
        state.reports.push(report);
        state.window = window;
        let first = state.since.is_none();
        state.since.get_or_insert_with(Instant::now);
        if first || state.eager {
            self.for_poller.notify_one();
        }
    }

    /// The worker: returns what to do next, if something is there.
    pub(super) fn try_next(&self) -> Option<Next> {
        let mut state = self.lock();
        let next = if state.error.is_some() { None } else { state.next() };
        if state.steps.len() == state.window / 2 {
            self.for_poller.notify_one();
        }
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
                return Ok(next);
            }
            if !std::mem::replace(&mut state.idle, true) {
                self.for_poller.notify_one();
            }
            state = self.nap(state);
        }
    }

    /// The worker: waits until every report is acknowledged, or nobody will.
    pub(super) fn wait_until_answered(&self) -> Result<()> {
        let mut state = self.lock();
        state.since = state.since.map(|since| since.checked_sub(HOLD).unwrap_or(since));
        self.for_poller.notify_one();
        while !state.reports.is_empty() && !state.over {
            if let Some(error) = state.error.take() {
                return Err(error);
            }
            state = self.nap(state);
        }
        Ok(())
    }

    /// The worker: all `sent` updates that it ever pushed are on every server.
    pub(super) fn settled(&self, sent: u64) {
        self.lock().settled = Some(sent);
        self.for_poller.notify_one();
    }

    /// The worker: leaves.
    pub(super) fn leave(&self) {
        self.lock().leaving = true;
        self.for_poller.notify_one();
    }

    /// The poller: waits until there is something to report or to ask for. `refused`: the last poll brought no step.
    pub(super) fn wait_to_poll(&self, refused: bool, stopping: &dyn Fn() -> bool) -> PollRequest {
        let again = Instant::now() + if refused { POLL_AGAIN } else { Duration::ZERO };
        let mut state = self.lock();
        loop {
            if stopping() {
                state.over = true;
                self.for_worker.notify_one();
            }
            let now = Instant::now();
            let left = again.saturating_duration_since(now);
            // At half a window: one call then brings several steps.
            let wants = state.idle || (left.is_zero() && state.steps.len() <= state.window / 2);
            let held = state.since.map(|since| (since + HOLD).saturating_duration_since(now));
            let due = held.is_some_and(|held| held.is_zero() || state.eager);
            if state.leaving || due || wants {
                let State { reports, window, idle, leaving, .. } = &*state;
                return PollRequest { reports: reports.clone(), window: *window, idle: *idle, leaving: *leaving };
            }
            let longest = [Some(NAP), held, (!left.is_zero()).then_some(left)].into_iter().flatten().min();
            let waited = self.for_poller.wait_timeout(state, longest.unwrap_or(NAP));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The poller: the coordinator has taken the oldest `reports` and gives these steps. `eager`: others wait for reports.
    pub(super) fn answered(&self, reports: usize, steps: Vec<AssignedStep>, eager: bool) {
        let mut state = self.lock();
        state.reports.drain(..reports);
        state.since = (!state.reports.is_empty()).then(Instant::now);
        state.eager = eager;
        // The worker has something to do from now on, not only when it has woken up.
        state.idle &= steps.is_empty();
        state.steps.extend(steps);
        self.for_worker.notify_one();
    }

    /// The poller: another coordinator answers. Drops the steps of the former one and the reports to it, and waits until the
    /// worker has finished what it was pushing. Returns how many updates it has pushed by then, or `None` if it leaves.
    pub(super) fn renew(&self, stopping: &dyn Fn() -> bool) -> Option<u64> {
        let mut state = self.lock();
        state.steps.clear();
        state.reports.clear();
        state.since = None;
        state.settled = None;
        state.renew = true;
        self.for_worker.notify_one();
        loop {
            if let Some(sent) = state.settled.take() {
                // What it reported while it finished was about the former one's steps.
                state.reports.clear();
                state.since = None;
                return Some(sent);
            }
            if state.leaving || stopping() {
                return None;
            }
            state = self.for_poller.wait_timeout(state, NAP).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The poller: hands its error to the worker.
    pub(super) fn fail(&self, error: Error) {
        self.lock().error = Some(error);
        self.for_worker.notify_one();
    }

    /// The poller: there will be no more steps.
    pub(super) fn close(&self) {
        self.lock().over = true;
        self.for_worker.notify_one();
    }
}
