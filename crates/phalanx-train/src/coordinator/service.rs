//! The coordinator as workers reach it: on the bulk lane of the chief.

use super::messages::{StepReport, decode_task, encode_assignments, proto};
use super::outcomes::Outcomes;
use super::state::CoordinatorState;
use bytes::Bytes;
use phalanx_base::{Code, Error, Fault, Incarnation, Result, TaskId};
use phalanx_cluster::schedule::{Consistency, Receipt, Rejection, TaskIncarnation};
use phalanx_wire::bulk::{Handler, Pending};
use phalanx_wire::{InFrame, OutFrame};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The longest that a call is held.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// The most steps that a worker may have.
const MOST: u32 = 1024;

/// Answers workers, as soon as there is a coordinator, and tasks that wait for the outcome of a call.
pub(crate) struct CoordinatorService {
    job: u64,
    calls: Mutex<Calls>,
    /// An outcome is there.
    completed: tokio::sync::Notify,
}

/// The calls of the chief's program.
#[derive(Default)]
struct Calls {
    /// The call that the chief is in or was in last, and its coordinator.
    current: u64,
    coordinator: Option<Arc<CoordinatorState>>,
    outcomes: Outcomes,
}

impl CoordinatorService {
    pub(crate) fn new(job: u64) -> Self {
        Self { job, calls: Mutex::default(), completed: tokio::sync::Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a call: workers that are in the same one get its steps.
    pub(super) fn open(&self, call: u64, coordinator: Arc<CoordinatorState>) {
        let mut calls = self.lock();
        (calls.current, calls.coordinator) = (call, Some(coordinator));
    }

    /// Completes a call: every task that is in it gets the outcome.
    pub(crate) fn complete(&self, call: u64, outcome: Bytes) {
        let mut calls = self.lock();
        (calls.current, calls.coordinator) = (call, None);
        calls.outcomes.complete(call, outcome);
        drop(calls);
        self.completed.notify_waiters();
    }

    /// Returns the outcome of a call, if it is complete.
    pub(super) fn outcome(&self, call: u64) -> Option<Bytes> {
        self.lock().outcomes.of(call).cloned()
    }

    /// Returns whether an incarnation is in a later call than the chief.
    pub(super) fn is_ahead(&self, task: (TaskId, Incarnation)) -> bool {
        let calls = self.lock();
        calls.outcomes.is_after(calls.current, task)
    }

    /// Returns whether a task has asked for a step or an outcome of this call or a later one: this incarnation of it, or any.
    pub(super) fn is_in(&self, call: u64, task: TaskId, incarnation: Option<Incarnation>) -> bool {
        self.lock().outcomes.was_asked_by(call, task, incarnation)
    }

    /// Returns whether an incarnation has the newest outcome and its values.
    pub(super) fn newest_is_known_by(&self, task: (TaskId, Incarnation)) -> bool {
        self.lock().outcomes.newest_is_known_by(task)
    }

    /// Waits until a call is complete, for at most `wait`, and returns its outcome.
    async fn wait_for_outcome(&self, call: u64, wait: Duration) -> proto::PollReply {
        let until = tokio::time::Instant::now() + wait;
        loop {
            let completed = self.completed.notified();
            let outcome = self.outcome(call).map(Vec::from);
            if outcome.is_some() || tokio::time::timeout_at(until, completed).await.is_err() {
                return proto::PollReply { outcome, ..Default::default() };
            }
        }
    }

    async fn answer(&self, frame: InFrame) -> Result<OutFrame> {
        let poll: proto::Poll = frame.header()?;
        if poll.job != self.job {
            return Err(Error::new(Code::WrongJob, "the coordinator belongs to another job")
                .help("see whether two jobs use the same address"));
        }
        let purpose = poll.purpose();
        let task = decode_task(poll.worker)?;
        let worker = TaskIncarnation::from(task);
        let wait = Duration::from_millis(u64::from(poll.wait_millis)).min(LONGEST_WAIT);
        match purpose {
            proto::Purpose::Steps => {}
            proto::Purpose::Outcome => {
                self.lock().outcomes.learn(task, poll.call, Vec::new());
                return Ok(OutFrame::new(&self.wait_for_outcome(poll.call, wait).await));
            }
            proto::Purpose::Done => {
                self.lock().outcomes.has_newest(task, poll.call);
                return Ok(OutFrame::new(&proto::PollReply::default()));
            }
        }
        let current = {
            let mut calls = self.lock();
            let current = calls.current;
            calls.outcomes.learn(task, poll.call, poll.outcomes);
            if calls.outcomes.of(poll.call).is_some() {
                let coordinator = poll.coordinator;
                return Ok(OutFrame::new(&proto::PollReply { over: true, coordinator, ..Default::default() }));
            }
            calls.coordinator.clone().filter(|_| current == poll.call)
        };
        let Some(state) = current else {
            // The chief is not in this call yet.
            tokio::time::sleep(wait.min(Duration::from_millis(50))).await;
            return Ok(OutFrame::new(&proto::PollReply::default()));
        };
        let coordinator = Some(state.coordinator);
        let over = OutFrame::new(&proto::PollReply { over: true, coordinator, ..Default::default() });
        if let Some(registered) = &poll.registered {
            check_registered(&state.registered, &registered.entries, worker)
                .inspect_err(|error| state.refuse(error.clone()))?;
        }
        if poll.coordinator != coordinator {
            // The coordinator that it had joined is gone, or it has joined none yet.
            return Ok(OutFrame::new(&proto::PollReply { coordinator, ..Default::default() }));
        }
        let mut body = frame.body();
        let decode = |report| StepReport::decode(report, &mut body);
        let reports = poll.reports.into_iter().map(decode).collect::<Result<_>>()?;
        state.lock().joined(state.now(), worker, poll.sent);
        take_reports(&state, worker, reports)?;
        if poll.leaving {
            // A worker that is not known has nothing to leave.
            let _ = state.lock().left(worker);
            state.notify_changed();
            state.notify_work();
            return Ok(over);
        }
        let until = tokio::time::Instant::now() + wait;
        loop {
            let scheduled = state.work();
            let taken = {
                let mut queue = state.lock();
                if queue.has_ended() {
                    return Ok(over);
                }
                queue.take(state.now(), worker, poll.received, poll.want.min(MOST) as usize)
            };
            let steps = taken.map_err(|rejection| refused(&rejection))?;
            if !steps.is_empty() || tokio::time::timeout_at(until, scheduled).await.is_err() {
                let (steps, arguments) = encode_assignments(steps);
                let eager = state.options.consistency != Consistency::Async;
                let mut reply =
                    OutFrame::new(&proto::PollReply { steps, over: false, coordinator, eager, outcome: None });
                arguments.into_iter().for_each(|argument| reply.push(argument));
                return Ok(reply);
            }
        }
    }
}

impl Handler for CoordinatorService {
    fn call(self: Arc<Self>, frame: InFrame) -> Pending<'static, Result<OutFrame>> {
        Box::pin(async move { self.answer(frame).await })
    }
}

/// Refuses a worker whose program has registered something else.
fn check_registered(own: &[String], theirs: &[String], worker: TaskIncarnation) -> Result<()> {
    let Some(at) = (0..own.len().max(theirs.len())).find(|&at| own.get(at) != theirs.get(at)) else { return Ok(()) };
    let task = worker.task;
    let entry = |entries: &[String]| entries.get(at).map_or("nothing", String::as_str).to_owned();
    Err(Error::new(Code::BadSetting, format!("{task} has registered other steps than the chief"))
        .at(task.to_string())
        .because(format!(
            "entry {} of {} is {} on the chief, entry {} of {} is {} on {task}",
            at + 1,
            own.len(),
            entry(own),
            at + 1,
            theirs.len(),
            entry(theirs),
        ))
        .help("register the same steps, datasets, resources and metrics, in the same order, on every task"))
}

fn take_reports(state: &CoordinatorState, worker: TaskIncarnation, reports: Vec<StepReport>) -> Result<()> {
    if reports.is_empty() {
        return Ok(());
    }
    let now = state.now();
    let mut queue = state.lock();
    reports.into_iter().try_for_each(|StepReport { attempt_id, sequence, output }| {
        let pushed = sequence.is_some() && output.is_ok();
        let mut counted = Vec::new();
        let receipt = match output {
            Ok(output) => {
                counted = state.metrics.decode(&output.metrics)?;
                queue.committed(now, worker, attempt_id, sequence, output.result)
            }
            Err(error) if error.code().fault() == Fault::Infrastructure => {
                queue.gave_back(now, worker, attempt_id, &error.to_string())
            }
            Err(error) => queue.failed(now, worker, attempt_id, error),
        };
        match receipt {
            Receipt::Taken => {
                if pushed && !matches!(state.options.consistency, Consistency::Rounds { .. }) {
                    state.committed.fetch_add(1, Ordering::AcqRel);
                }
                // Before the queue is unlocked, so that whoever sees that the step is done sees its metrics.
                state.metrics.merge(&counted)
            }
            Receipt::Ignored(rejection) => Err(refused(&rejection)),
            Receipt::Repeated => Ok(()),
        }
    })?;
    drop(queue);
    state.notify_changed();
    if state.options.consistency != Consistency::Async {
        // Others may have been held back by a step that is now done.
        state.notify_work();
    }
    Ok(())
}

fn refused(rejection: &Rejection) -> Error {
    let code = match rejection {
        Rejection::Ended(_) | Rejection::Lost(_) => Code::Fenced,
        _ => Code::BadMessage,
    };
    Error::new(code, rejection.to_string())
}
