//! The worker's thread that polls the coordinator, so that steps are there before the worker needs them.

use super::messages::{AssignedStep, encode_task, proto};
use super::step_queue::{PollRequest, StepQueue};
use crate::{Server, identity};
use bytes::Bytes;
use phalanx_base::{Code, Context, Error, Fault, Result};
use phalanx_wire::{Address, OutFrame, Outcome, bulk};
use std::time::Duration;

/// How long the coordinator may hold the call of a worker that has nothing to do.
const WAIT: Duration = Duration::from_millis(500);
const DEADLINE: Duration = Duration::from_secs(5);

pub(super) struct StepPoller {
    server: Server,
    chief: String,
    address: Address,
    worker: proto::TaskIncarnation,
    job: u64,
    call: u64,
    /// The outcomes of the calls before.
    outcomes: Vec<Vec<u8>>,
}

/// What the worker and the coordinator it has joined know of each other.
#[derive(Default)]
struct Joined {
    coordinator: Option<u64>,
    sent: u64,
    /// The newest turn that the worker has received.
    received: u64,
}

impl StepPoller {
    /// Polls for the steps of a call; `outcomes` are those of the calls before it.
    pub(super) fn new(server: &Server, call: u64, outcomes: &[Bytes]) -> Result<Self> {
        let (chief, address) =
            server.config().chief().ok_or_else(|| Error::new(Code::Internal, "there is no chief"))?;
        Ok(Self {
            server: server.clone(),
            chief: format!("{chief} ({address})"),
            address: address.clone(),
            worker: encode_task(server.task(), server.incarnation()),
            job: identity::digest(&server.config().job_id()),
            call,
            outcomes: outcomes.iter().map(|outcome| outcome.to_vec()).collect(),
        })
    }

    /// Polls until the job is over or the worker leaves.
    pub(super) fn run(&self, queue: &StepQueue) {
        if let Err(error) = self.poll(queue) {
            queue.fail(error);
        }
        queue.close();
    }

    fn poll(&self, queue: &StepQueue) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context(Code::Internal, "the event loop of the step poller cannot be started")?;
        let lane = {
            let _inside = runtime.enter();
            bulk::reach(&self.address, self.chief.clone(), self.server.options().token.clone())
        };
        let stopping = || self.server.should_stop();
        let mut joined = Joined::default();
        let mut refused = false;
        loop {
            let PollRequest { reports, window, idle, leaving } = queue.wait_to_poll(refused, &stopping);
            let wait = if idle && reports.is_empty() && !leaving { WAIT } else { Duration::ZERO };
            let poll = proto::Poll {
                job: self.job,
                worker: Some(self.worker.clone()),
                coordinator: joined.coordinator,
                sent: joined.sent,
                reports: reports.iter().map(|report| report.encode()).collect(),
                received: joined.received,
                want: window.max(1) as u32,
                wait_millis: wait.as_millis() as u32,
                leaving,
                call: self.call,
                purpose: proto::Purpose::Steps.into(),
                outcomes: if joined.coordinator.is_none() { self.outcomes.clone() } else { Vec::new() },
            };
            match runtime.block_on(lane.call(OutFrame::new(&poll), DEADLINE + wait)) {
                Outcome::Done(frame) => {
                    let reply: proto::PollReply = frame.header()?;
                    if reply.over || (leaving && reply.coordinator == joined.coordinator) {
                        queue.answered(reports.len(), Vec::new(), false);
                        return Ok(());
                    }
                    if reply.coordinator != joined.coordinator {
                        let Some(sent) = queue.renew(&stopping) else { return Ok(()) };
                        joined = Joined { coordinator: reply.coordinator, sent, received: 0 };
                        continue;
                    }
                    let mut fresh = reply.steps;
                    // Only what comes next: a turn that was received before would run twice.
                    fresh.retain(|step| {
                        let next = step.turn == joined.received + 1;
                        joined.received += u64::from(next);
                        next
                    });
                    refused = fresh.is_empty();
                    let fresh = fresh.into_iter().map(AssignedStep::decode).collect::<Result<_>>()?;
                    queue.answered(reports.len(), fresh, reply.eager);
                }
                Outcome::Failed(_) | Outcome::Unknown(_) if leaving || stopping() => return Ok(()),
                Outcome::Failed(error) | Outcome::Unknown(error) => {
                    if error.code().fault() != Fault::Infrastructure || error.code() == Code::Fenced {
                        return Err(error);
                    }
                    // The chief may come back; membership decides when to give up.
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
        }
    }
}
