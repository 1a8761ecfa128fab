//! The chief's side: it keeps the roster and decides when the job is over. `looking.rs` probes the addresses of tasks.

use super::{TaskIdentity, check_peer};
use crate::ServerOptions;
use crate::job::Job;
use crate::logging::LogScope;
use phalanx_base::{Code, Error, Incarnation, Result, Role, TaskId};
use phalanx_cluster::{AwakeClock, MemberState, Phase, Roster, RosterEvent};
use phalanx_wire::Address;
use phalanx_wire::control;
use phalanx_wire::proto::control::{BeatReply, BeatRequest, Failure, Identity, Missing, beat_reply, beat_request};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long the chief waits until the other tasks know that the job is over.
const LONGEST_END: Duration = Duration::from_secs(2);

/// How long the tasks that know that the job is over may take to leave.
const GOODBYE: Duration = Duration::from_millis(500);

pub(super) struct RosterState {
    pub(super) roster: Roster,
    /// Why a task is missing, as the last probe of its address found.
    pub(super) reasons: BTreeMap<TaskId, String>,
    /// Why a process with this task id was refused; kept until another one is accepted.
    refused: BTreeMap<TaskId, Error>,
}

/// The roster, and the handler of heartbeats.
pub(crate) struct Chief {
    pub(super) identity: TaskIdentity,
    pub(super) others: Vec<(TaskId, Address)>,
    state: Mutex<RosterState>,
    pub(super) started: Instant,
    pub(super) job: Arc<Job>,
    pub(super) options: ServerOptions,
    pub(super) log: LogScope,
    /// Trainers are told that the job ends, while parameter servers stay.
    stopping: AtomicBool,
}

impl Chief {
    pub(crate) fn new(
        identity: TaskIdentity,
        others: Vec<(TaskId, Address)>,
        job: Arc<Job>,
        options: ServerOptions,
        log: LogScope,
    ) -> Self {
        let roster = Roster::new(others.iter().map(|(task, _)| *task), options.lease);
        job.set_phase(roster.phase());
        let state = Mutex::new(RosterState { roster, reasons: BTreeMap::new(), refused: BTreeMap::new() });
        Self { identity, others, state, started: Instant::now(), job, options, log, stopping: AtomicBool::new(false) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, RosterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the roster and publishes its state to this task.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Roster, Duration) -> T) -> T {
        let mut state = self.lock();
        let result = change(&mut state.roster, self.started.elapsed());
        self.job.add_lost(state.roster.take_lost());
        let absent = state.roster.lost_servers().next().is_some();
        self.job.record_servers(state.roster.take_returned(), absent);
        if let Some(failure) = state.roster.failure() {
            self.job.record_failure(failure.clone());
        }
        self.job.set_phase(state.roster.phase());
        result
    }

    /// Lets workers join and leave at any time.
    pub(crate) fn take_any_workers(&self) {
        self.change(|roster, _| roster.take_any_workers());
    }

    /// Takes the job over from a former chief: of the incarnations that the servers know, those that no task has now are lost.
    /// Tasks have a lease's time to send a heartbeat first.
    pub(crate) fn take_over(&self, known: BTreeSet<(TaskId, Incarnation)>) {
        // A lease of awake time: if this process is stopped meanwhile, the others still have all of theirs.
        let (begun, mut clock) = (Instant::now(), AwakeClock::new(self.options.lease / 8));
        let mut waited = Duration::ZERO;
        let silent = || {
            let state = self.lock();
            let here: BTreeSet<TaskId> = state.roster.incarnations().map(|(task, _)| task).collect();
            known.iter().any(|(task, _)| *task != self.identity.task && !here.contains(task))
        };
        while silent() && waited < self.options.lease && self.job.phase() < Phase::Ending {
            std::thread::sleep(Duration::from_millis(20));
            waited = clock.read(begun.elapsed());
        }
        self.job.add_lost(known.difference(&self.live()).copied().collect());
    }

    /// Returns the incarnations of the present tasks, this one among them.
    pub(crate) fn live(&self) -> BTreeSet<(TaskId, Incarnation)> {
        let mut here: BTreeSet<_> = self.lock().roster.incarnations().collect();
        here.insert((self.identity.task, self.identity.incarnation));
        here
    }

    /// Tells the other trainers to stop, in the reply to their next heartbeat; servers stay.
    pub(crate) fn stop_trainers(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Returns whether other trainers are at work.
    pub(crate) fn has_trainers(&self) -> bool {
        self.lock().roster.trainers_here()
    }

    /// Waits for lost servers from now on: there is a checkpoint to restore them from.
    pub(crate) fn wait_for_servers(&self) {
        self.change(|roster, _| roster.wait_for_servers(self.options.server_grace));
    }

    /// Fails the job; the other tasks learn it from the reply to their next heartbeat.
    pub(crate) fn fail(&self, error: Error) {
        self.change(|roster, now| roster.fail(now, error));
    }

    /// Ends the job, successfully or with `failure`, and waits at most 2 s until every task knows.
    pub(crate) fn end(&self, failure: Option<Error>) {
        // A task that was refused, or has not joined a job that ends before it formed, learns that from the chief's next reply.
        let early = failure.is_some() || self.job.phase() == Phase::Forming;
        match failure {
            Some(error) => self.change(|roster, now| roster.fail(now, error)),
            None => self.change(Roster::end),
        }
        // Awake time: a chief that is stopped here still tells the others once it runs again.
        let (begun, mut clock) = (Instant::now(), AwakeClock::new(Duration::from_millis(100)));
        let (mut now, mut told) = (Duration::ZERO, None);
        while now < LONGEST_END {
            let (gone, all_told) = self.change(|roster, now| {
                roster.tick(now);
                let over = roster.phase() == Phase::Over;
                (over && roster.everybody_is_gone(), over && roster.everybody_knows())
            });
            // A reply that was sent may not have arrived yet; a task that got it leaves.
            let told_for = all_told.then(|| now - *told.get_or_insert(now));
            if gone || told_for.is_some_and(|told_for| told_for > GOODBYE) {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
            now = clock.read(begun.elapsed());
        }
        self.change(|roster, now| roster.tick(now));
        let until = Instant::now() + (self.options.beat * 5).min(Duration::from_secs(1));
        while early && !self.lock().roster.missing().is_empty() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Advances the roster's clock until the job is over. Runs on the threads that receive heartbeats, so that leases do not
    /// expire while this process cannot receive any.
    pub(crate) async fn tick(&self) {
        while self.job.phase() != Phase::Over {
            let events = self.change(|roster, now| {
                roster.tick(now);
                roster.take_events()
            });
            events.into_iter().for_each(|event| self.log.run(|| self.log_event(event)));
            tokio::time::sleep(self.options.beat).await;
        }
    }

    fn log_event(&self, event: RosterEvent) {
        match event {
            RosterEvent::ServerLost(task) => {
                let grace = self.options.server_grace.as_secs();
                tracing::warn!(server = %task, "{task} is lost; waiting {grace} s for it to come back");
            }
            RosterEvent::ServerBack(task) => {
                tracing::info!(server = %task, "{task} is back, with everything that it held");
            }
            RosterEvent::ServerStartedAgain(task) => tracing::info!(
                server = %task,
                "{task} is back as another process; without a log it gets its part of the newest checkpoint"
            ),
            RosterEvent::ChiefStalled(time) => {
                let seconds = time.as_secs_f32();
                tracing::warn!(seconds, "this process did not run for {seconds:.1} s; nobody's lease ends for that");
            }
        }
    }

    /// Records that a process was refused as this task. The job continues to form: the right process may still come.
    pub(super) fn refuse(&self, task: TaskId, error: &Error) {
        let mut state = self.lock();
        let known = state.refused.insert(task, error.clone());
        let missing = state.roster.missing().contains(&task);
        drop(state);
        let same = |known: Error| (known.code(), known.why()) == (error.code(), error.why());
        if missing && !known.is_some_and(same) {
            let code = error.code();
            self.log.run(|| {
                tracing::warn!(peer = %task, %code, "{task} is refused ({code}) and still waited for: {error}");
            });
        }
    }

    pub(super) fn missing_line(&self) -> String {
        let state = self.lock();
        let list: Vec<String> = self.missing(&state).iter().map(|m| format!("{} at {} ({})", m.0, m.1, m.2)).collect();
        format!("waiting for {} of {} tasks: {}", list.len(), self.others.len() + 1, list.join(", "))
    }

    /// Returns the tasks that have never joined, with their addresses and why they are missing.
    fn missing<'a>(&'a self, state: &RosterState) -> Vec<(TaskId, &'a Address, String)> {
        let missing = state.roster.missing();
        let reason = |task: &TaskId| {
            let found = state.reasons.get(task).map_or("not heard of yet", String::as_str);
            match state.refused.get(task) {
                Some(error) => format!("{found}; one was refused: {} {}", error.code(), error.what()),
                None => found.to_owned(),
            }
        };
        let others = self.others.iter().filter(|(task, _)| missing.contains(task));
        others.map(|(task, address)| (*task, address, reason(task))).collect()
    }
}

impl control::Handler for Chief {
    fn identify(&self) -> Identity {
        self.identity.identity()
    }

    fn beat(&self, beat: BeatRequest) -> Result<BeatReply> {
        let peer =
            beat.who.clone().ok_or_else(|| Error::new(Code::BadMessage, "a heartbeat does not say whose it is"))?;
        let task: TaskId = peer.task.parse()?;
        if let Err(error) = check_peer(&self.identity, &peer) {
            // A task of another job does not concern this one.
            if error.code() != Code::WrongJob {
                self.refuse(task, &error);
            }
            return Err(error);
        }
        let member_state = match beat.member_state() {
            beat_request::MemberState::Here => MemberState::Here,
            beat_request::MemberState::Done => MemberState::Done,
            beat_request::MemberState::Leaving => MemberState::Leaving,
            beat_request::MemberState::Failed => {
                let failure = beat.failure.unwrap_or_default();
                let code = Code::from_number(failure.code).unwrap_or(Code::Internal);
                MemberState::Failed(Error::new(code, failure.reason).relayed())
            }
        };
        let phase = self.change(|roster, now| {
            if beat.formed {
                roster.formed_before(now);
            }
            roster.beat(now, task, Incarnation(peer.incarnation), member_state)
        })?;
        let stops = task.role != Role::Ps && self.stopping.load(Ordering::Acquire);
        let phase = if stops { phase.max(Phase::Ending) } else { phase };
        let state = self.lock();
        let missing = self.missing(&state).into_iter().map(|(task, address, reason)| Missing {
            task: task.to_string(),
            address: address.to_string(),
            reason,
        });
        let failure = |error: &Error| Failure { code: error.code().number(), reason: error.to_string() };
        Ok(BeatReply {
            phase: to_wire(phase).into(),
            missing: missing.collect(),
            failure: state.roster.failure().map(failure),
            chief_incarnation: self.identity.incarnation.0,
        })
    }
}

fn to_wire(phase: Phase) -> beat_reply::Phase {
    match phase {
        Phase::Forming => beat_reply::Phase::Forming,
        Phase::Running => beat_reply::Phase::Running,
        Phase::Ending => beat_reply::Phase::Ending,
        Phase::Over => beat_reply::Phase::Over,
    }
}
