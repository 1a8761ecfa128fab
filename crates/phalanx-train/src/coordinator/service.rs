//! The coordinator as workers reach it: on the bulk lane of the chief.

use super::messages::{StepReport, decode_task, encode_assignment, proto};
use super::state::CoordinatorState;
use phalanx_base::{Code, Error, Fault, Result};
use phalanx_cluster::schedule::{Consistency, Receipt, Rejection, TaskIncarnation};
use phalanx_wire::bulk::{Handler, Pending};
use phalanx_wire::{InFrame, OutFrame};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The longest that a call is held.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// The most steps that a worker may have.
const MOST: u32 = 1024;

/// Answers workers, as soon as there is a coordinator.
pub(crate) struct CoordinatorService {
    job: u64,
    state: Mutex<Option<Arc<CoordinatorState>>>,
}

impl CoordinatorService {
    pub(crate) fn new(job: u64) -> Self {
        Self { job, state: Mutex::default() }
    }

    pub(super) fn open(&self, state: Arc<CoordinatorState>) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = Some(state);
    }

    fn state(&self) -> Option<Arc<CoordinatorState>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn answer(&self, frame: InFrame) -> Result<proto::PollReply> {
        let poll: proto::Poll = frame.header()?;
        if poll.job != self.job {
            return Err(Error::new(Code::WrongJob, "the coordinator belongs to another job")
                .help("see whether two jobs use the same address"));
        }
        let worker = TaskIncarnation::from(decode_task(poll.worker)?);
        let wait = Duration::from_millis(u64::from(poll.wait_millis)).min(LONGEST_WAIT);
        let Some(state) = self.state() else {
            // The chief is no coordinator, or not yet.
            tokio::time::sleep(wait.min(Duration::from_millis(50))).await;
            return Ok(proto::PollReply::default());
        };
        let coordinator = Some(state.coordinator);
        let over = proto::PollReply { over: true, coordinator, ..Default::default() };
        if poll.coordinator != coordinator {
            // The coordinator that it had joined is gone, or it has joined none yet.
            return Ok(proto::PollReply { coordinator, ..Default::default() });
        }
        state.lock().joined(state.now(), worker, poll.sent);
        take_reports(&state, worker, poll.reports.into_iter().map(StepReport::decode))?;
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
                let steps = steps.into_iter().map(encode_assignment).collect();
                let eager = state.options.consistency != Consistency::Async;
                return Ok(proto::PollReply { steps, over: false, coordinator, eager });
            }
        }
    }
}

impl Handler for CoordinatorService {
    fn call(self: Arc<Self>, frame: InFrame) -> Pending<'static, Result<OutFrame>> {
        Box::pin(async move { self.answer(frame).await.map(|reply| OutFrame::new(&reply)) })
    }
}

fn take_reports(
    state: &CoordinatorState,
    worker: TaskIncarnation,
    mut reports: impl ExactSizeIterator<Item = StepReport>,
) -> Result<()> {
    if reports.len() == 0 {
        return Ok(());
    }
    let now = state.now();
    let mut queue = state.lock();
    reports.try_for_each(|StepReport { attempt_id, sequence, result }| {
        let pushed = sequence.is_some() && result.is_ok();
        let receipt = match result {
            Ok(result) => queue.committed(now, worker, attempt_id, sequence, result),
            Err(error) if error.code().fault() == Fault::Infrastructure => {
                queue.gave_back(now, worker, attempt_id, &error.to_string())
            }
            Err(error) => queue.failed(now, worker, attempt_id, error),
        };
        match receipt {
            Receipt::Taken if pushed && !matches!(state.options.consistency, Consistency::Rounds { .. }) => {
                state.committed.fetch_add(1, Ordering::AcqRel);
            }
            Receipt::Ignored(rejection) => return Err(refused(&rejection)),
            Receipt::Taken | Receipt::Repeated => {}
        }
        Ok(())
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
