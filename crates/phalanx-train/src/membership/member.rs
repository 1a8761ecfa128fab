//! The side of every other task: it sends heartbeats to the chief, and learns the state of the job from the replies.

use super::{REMIND, TaskIdentity};
use crate::ServerOptions;
use crate::job::Job;
use crate::logging::LogScope;
use crate::services::Timer;
use phalanx_base::{Code, Error, Result, TaskId};
use phalanx_cluster::{AwakeClock, Phase};
use phalanx_wire::control::{self, Client};
use phalanx_wire::proto::control::{BeatReply, BeatRequest, Failure, Identity, beat_reply, beat_request};
use phalanx_wire::{Address, limits};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A task that is not the chief.
pub(crate) struct Member {
    identity: TaskIdentity,
    chief: (TaskId, Address),
    job: Arc<Job>,
    options: ServerOptions,
    log: LogScope,
    /// Whether this task has been part of the job since it formed.
    formed: AtomicBool,
    /// Whether this task has done its part.
    done: AtomicBool,
    /// Ends the pause before the next heartbeat.
    wake: tokio::sync::Notify,
}

/// The outcome of the heartbeats so far, in this task's awake time: a task that was stopped for a minute has not lost its
/// chief.
#[derive(Default)]
struct Contact {
    last: Option<Duration>,
    refused_since: Option<Duration>,
}

impl Member {
    pub(crate) fn new(
        identity: TaskIdentity,
        chief: (TaskId, Address),
        job: Arc<Job>,
        options: ServerOptions,
        log: LogScope,
    ) -> Self {
        let (formed, done, wake) = (AtomicBool::new(false), AtomicBool::new(false), tokio::sync::Notify::new());
        Self { identity, chief, job, options, log, formed, done, wake }
    }

    /// Sends heartbeats until the job is over.
    pub(crate) async fn watch(&self) {
        let started = Instant::now();
        let mut clock = AwakeClock::new(2 * limits::CONTROL_CALL);
        let connect = || Client::new(&self.chief.1, self.options.token.clone());
        let mut client = connect();
        let mut reminder = Timer::after(REMIND.0, REMIND.1);
        let mut contact = Contact::default();
        while self.job.phase() != Phase::Over {
            let done = self.done.load(Ordering::Acquire);
            let member_state = if done { beat_request::MemberState::Done } else { beat_request::MemberState::Here };
            let answer = client.beat(self.beat(member_state, None)).await;
            let now = clock.read(started.elapsed());
            let waiting_for = match answer {
                Ok(reply) => {
                    contact = Contact { last: Some(now), refused_since: None };
                    self.hear(&reply)
                }
                Err(error) => {
                    if error.code() == Code::OutcomeUnknown {
                        // The other end may not know this connection any more.
                        client = connect();
                    }
                    match self.silence(&mut contact, now, error) {
                        Ok(line) => Some(line),
                        Err(error) => return self.job.fail(error),
                    }
                }
            };
            if let Some(line) = waiting_for.filter(|_| reminder.is_due(Instant::now())) {
                self.log.run(|| tracing::info!("waiting for {line}"));
            }
            if self.job.is_killed() {
                return;
            }
            if self.job.phase() == Phase::Over {
                // The chief waits for this before it ends.
                let goodbye = client.beat(self.beat(beat_request::MemberState::Leaving, None));
                let _ = tokio::time::timeout(Duration::from_secs(1), goodbye).await;
                return;
            }
            let _ = tokio::time::timeout(self.options.beat, self.wake.notified()).await;
        }
    }

    /// Tells the chief at once that this task has done its part.
    pub(crate) fn done(&self) {
        self.done.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    /// Tells the chief that this task leaves: one attempt of at most 1 s.
    pub(crate) async fn leave(&self, failure: Option<&Error>) {
        let member_state =
            if failure.is_some() { beat_request::MemberState::Failed } else { beat_request::MemberState::Leaving };
        let mut client = Client::new(&self.chief.1, self.options.token.clone());
        let goodbye = client.beat(self.beat(member_state, failure));
        let _ = tokio::time::timeout(Duration::from_secs(1), goodbye).await;
    }

    fn beat(&self, member_state: beat_request::MemberState, failure: Option<&Error>) -> BeatRequest {
        BeatRequest {
            who: Some(self.identity.identity()),
            member_state: member_state.into(),
            failure: failure.map(|error| Failure { code: error.code().number(), reason: error.to_string() }),
            formed: self.formed.load(Ordering::Relaxed),
        }
    }

    /// Takes the chief's reply, and returns the tasks that are missing.
    fn hear(&self, reply: &BeatReply) -> Option<String> {
        if let Some(failure) = &reply.failure {
            let code = Code::from_number(failure.code).unwrap_or(Code::JobFailed);
            self.job.record_failure(Error::new(code, "the job failed").because(&failure.reason).relayed());
        }
        if reply.phase() != beat_reply::Phase::Forming {
            self.formed.store(true, Ordering::Relaxed);
        }
        self.job.set_phase(match reply.phase() {
            beat_reply::Phase::Forming => Phase::Forming,
            beat_reply::Phase::Running => Phase::Running,
            beat_reply::Phase::Ending => Phase::Ending,
            beat_reply::Phase::Over => Phase::Over,
        });
        let name = |m: &phalanx_wire::proto::control::Missing| format!("{} at {} ({})", m.task, m.address, m.reason);
        let missing: Vec<String> = reply.missing.iter().map(name).collect();
        (!missing.is_empty()).then(|| missing.join(", "))
    }

    /// Decides what a failed heartbeat means: try again, or give up.
    fn silence(&self, contact: &mut Contact, now: Duration, error: Error) -> Result<String> {
        let (task, address) = &self.chief;
        match error.code() {
            // A chief that does not answer does not count leases either.
            Code::PeerUnreachable | Code::OutcomeUnknown => contact.refused_since = None,
            Code::DuplicateTask => {
                // A task that was killed and started again has to wait until its former incarnation's lease is over.
                let since = *contact.refused_since.get_or_insert(now);
                if now - since > self.options.lease + Duration::from_secs(2) {
                    return Err(error.at(self.identity.task.to_string()));
                }
                return Ok(format!("the former {} to be given up", self.identity.task));
            }
            _ => return Err(error),
        }
        let why = error.why().unwrap_or(error.what()).to_owned();
        match contact.last {
            Some(last) if now - last > self.options.grace => {
                Err(Error::new(Code::ChiefLost, format!("{task} has been silent for {} s", (now - last).as_secs()))
                    .at(address.to_string())
                    .because(why)
                    .help("start the job again"))
            }
            None if now > self.options.formation_deadline => {
                Err(Error::new(Code::FormationDeadline, format!("{task} did not answer before the deadline"))
                    .at(address.to_string())
                    .because(why)
                    .help("start the chief, or correct its address in the cluster"))
            }
            _ => Ok(format!("{task} at {address} ({why})")),
        }
    }
}

impl control::Handler for Member {
    fn identify(&self) -> Identity {
        self.identity.identity()
    }

    fn beat(&self, _: BeatRequest) -> Result<BeatReply> {
        Err(Error::new(Code::WrongJob, format!("{} is not the chief", self.identity.task))
            .at(self.identity.address.clone())
            .because(format!("its chief is {} at {}", self.chief.0, self.chief.1))
            .help("give every task the same cluster"))
    }
}
