//! The worker's thread that polls the coordinator, so that steps are there before the worker needs them.

use super::messages::{AssignedStep, StepReport, encode_task, proto};
use super::step_queue::{PollRequest, StepQueue};
use crate::{Server, identity};
use bytes::Bytes;
use phalanx_base::{Code, Context, Error, Fault, Result};
use phalanx_wire::{Address, OutFrame, Outcome};
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
    /// What this worker has registered.
    registered: Vec<String>,
}

/// What the worker and the coordinator it has joined know of each other.
#[derive(Default)]
struct Joined {
    coordinator: Option<u64>,
    sent: u64,
    /// The newest turn that the worker has received.
    received: u64,
    /// Whether the coordinator knows what the worker has registered.
    known: bool,
}

impl StepPoller {
    /// Polls for the steps of a call; `outcomes` are those of the calls before it, `registered` what this worker has registered.
    pub(super) fn new(server: &Server, registered: Vec<String>, call: u64, outcomes: &[Bytes]) -> Result<Self> {
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
            registered,
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
            self.server.reach(&self.address, self.chief.clone(), self.server.options().token.clone())
        };
        let stopping = || self.server.should_stop();
        let mut joined = Joined::default();
        let mut refused = false;
        loop {
            let PollRequest { reports, window, idle, leaving } = queue.wait_to_poll(refused, &stopping);
            let (encoded, body) = StepReport::encode_all(&reports);
            let sent = encoded.len();
            // With its last reports, not before.
            let leaving = leaving && sent == reports.len();
            let wait = if idle && sent == 0 && !leaving { WAIT } else { Duration::ZERO };
            let poll = proto::Poll {
                job: self.job,
                worker: Some(self.worker.clone()),
                coordinator: joined.coordinator,
                sent: joined.sent,
                reports: encoded,
                received: joined.received,
                want: window.max(1) as u32,
                wait_millis: wait.as_millis() as u32,
                leaving,
                call: self.call,
                purpose: proto::Purpose::Steps.into(),
                outcomes: if joined.coordinator.is_none() { self.outcomes.clone() } else { Vec::new() },
                registered: (!joined.known).then(|| proto::Registered { entries: self.registered.clone() }),
            };
            let mut frame = OutFrame::new(&poll);
            body.into_iter().for_each(|bytes| frame.push(bytes));
            match runtime.block_on(lane.call(frame, DEADLINE + wait)) {
                Outcome::Done(frame) => {
                    let reply: proto::PollReply = frame.header()?;
                    if reply.over || (leaving && reply.coordinator == joined.coordinator) {
                        queue.answered(sent, Vec::new(), false);
                        return Ok(());
                    }
                    if reply.coordinator != joined.coordinator {
                        let Some(sent) = queue.renew(&stopping) else { return Ok(()) };
                        joined = Joined { coordinator: reply.coordinator, sent, received: 0, known: false };
                        continue;
                    }
                    joined.known = joined.coordinator.is_some();
                    let mut body = frame.body();
                    let decode = |step| AssignedStep::decode(step, &mut body);
                    let mut fresh = reply.steps.into_iter().map(decode).collect::<Result<Vec<_>>>()?;
                    // Only what comes next: a turn that was received before would run twice.
                    fresh.retain(|step| {
                        let next = step.attempt_id.turn == joined.received + 1;
                        joined.received += u64::from(next);
                        next
                    });
                    refused = fresh.is_empty();
                    queue.answered(sent, fresh, reply.eager);
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
