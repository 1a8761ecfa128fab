//! Everybody else's side: say that you are here, hear where the job stands.

use super::{Reminder, Who};
use crate::ServerOptions;
use crate::job::Job;
use phalanx_base::{Code, Error, Result, TaskId};
use phalanx_cluster::{AwakeClock, Phase};
use phalanx_wire::control::{self, Client};
use phalanx_wire::proto::control::{BeatReply, BeatRequest, Identity, beat_reply, beat_request};
use phalanx_wire::{Address, limits};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A task that is not the chief.
pub(crate) struct Member {
    who: Who,
    chief: (TaskId, Address),
    job: Arc<Job>,
    options: ServerOptions,
    /// Whether this task has been part of the job since it formed.
    formed: AtomicBool,
    /// Whether it has done its part.
    done: AtomicBool,
}

/// What the beats so far have shown, in this task's awake time: a task that was stopped for a minute has not lost its
/// chief for that.
#[derive(Default)]
struct Contact {
    last: Option<Duration>,
    refused_since: Option<Duration>,
}

impl Member {
    pub(crate) fn new(who: Who, chief: (TaskId, Address), job: Arc<Job>, options: ServerOptions) -> Self {
        Self { who, chief, job, options, formed: AtomicBool::new(false), done: AtomicBool::new(false) }
    }

    /// Beats until the job is over.
    pub(crate) async fn watch(&self) {
        let started = Instant::now();
        let mut clock = AwakeClock::new(2 * limits::CONTROL_CALL);
        let connect = || Client::new(&self.chief.1, self.options.token.clone());
        let mut client = connect();
        let mut reminder = Reminder::new();
        let mut contact = Contact::default();
        while self.job.phase() != Phase::Over {
            let done = self.done.load(Ordering::Acquire);
            let mood = if done { beat_request::Mood::Done } else { beat_request::Mood::Here };
            let answer = client.beat(self.beat(mood, None)).await;
            let now = clock.read(started.elapsed());
            let waiting_for = match answer {
                Ok(reply) => {
                    contact = Contact { last: Some(now), refused_since: None };
                    self.hear(&reply)
                }
                Err(error) => {
                    if error.code() == Code::OutcomeUnknown {
                        // The connection may be one that only this end believes in.
                        client = connect();
                    }
                    match self.silence(&mut contact, now, error) {
                        Ok(line) => Some(line),
                        Err(error) => return self.job.fail(error),
                    }
                }
            };
            if let Some(line) = waiting_for.filter(|_| reminder.is_due()) {
                (self.options.say)(&format!("{}: waiting for {line}", self.who.task));
            }
            if self.job.phase() == Phase::Over {
                // So that the chief knows that its word has arrived, and can go.
                let goodbye = client.beat(self.beat(beat_request::Mood::Leaving, None));
                let _ = tokio::time::timeout(Duration::from_secs(1), goodbye).await;
                return;
            }
            tokio::time::sleep(self.options.beat).await;
        }
    }

    /// Tells the chief, from the next beat on, that nothing more comes from this task.
    pub(crate) fn done(&self) {
        self.done.store(true, Ordering::Release);
    }

    /// Says goodbye, once, without insisting.
    pub(crate) async fn leave(&self, failure: Option<&Error>) {
        let mood = if failure.is_some() { beat_request::Mood::Failed } else { beat_request::Mood::Leaving };
        let mut client = Client::new(&self.chief.1, self.options.token.clone());
        let goodbye = client.beat(self.beat(mood, failure));
        let _ = tokio::time::timeout(Duration::from_secs(1), goodbye).await;
    }

    fn beat(&self, mood: beat_request::Mood, failure: Option<&Error>) -> BeatRequest {
        BeatRequest {
            who: Some(self.who.identity()),
            mood: mood.into(),
            reason: failure.map(ToString::to_string).unwrap_or_default(),
            code: failure.map_or(0, |error| error.code().number()),
            formed: self.formed.load(Ordering::Relaxed),
        }
    }

    /// Takes the chief's answer; says who is still missing.
    fn hear(&self, reply: &BeatReply) -> Option<String> {
        if reply.failure_code != 0 {
            let code = Code::from_number(reply.failure_code).unwrap_or(Code::JobFailed);
            self.job.note_failure(Error::new(code, "the job failed").because(&reply.failure).relayed());
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

    /// Decides what an unanswered beat means: keep trying, or give up.
    fn silence(&self, contact: &mut Contact, now: Duration, error: Error) -> Result<String> {
        let (task, address) = &self.chief;
        match error.code() {
            // A chief that does not answer does not count leases either.
            Code::PeerUnreachable | Code::OutcomeUnknown => contact.refused_since = None,
            Code::DuplicateTask => {
                // A task that was killed and started again has to wait until its former incarnation's lease is over.
                let since = *contact.refused_since.get_or_insert(now);
                if now - since > self.options.lease + Duration::from_secs(2) {
                    return Err(error.at(self.who.task.to_string()));
                }
                return Ok(format!("the former {} to be given up", self.who.task));
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
        self.who.identity()
    }

    fn beat(&self, _: BeatRequest) -> Result<BeatReply> {
        Err(Error::new(Code::WrongJob, format!("{} is not the chief", self.who.task))
            .at(self.who.address.clone())
            .because(format!("its chief is {} at {}", self.chief.0, self.chief.1))
            .help("give every task the same cluster"))
    }
}
