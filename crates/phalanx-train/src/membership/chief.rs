//! The chief's side: it keeps the roster and says when the job is over. Looking at the addresses of others is in
//! `looking.rs`.

use super::{Who, check_peer};
use crate::ServerOptions;
use crate::job::Job;
use phalanx_base::{Code, Error, Incarnation, Result, Role, TaskId};
use phalanx_cluster::{AwakeClock, Mood, Phase, Roster, RosterEvent};
use phalanx_wire::Address;
use phalanx_wire::control;
use phalanx_wire::proto::control::{BeatReply, BeatRequest, Identity, Missing, beat_reply, beat_request};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long the others may take to hear that the job is over.
const LONGEST_END: Duration = Duration::from_secs(2);

/// How long those who were told that the job is over have to say goodbye.
const GOODBYE: Duration = Duration::from_millis(500);

pub(super) struct State {
    pub(super) roster: Roster,
    /// Why a task is missing, as the last look at its address showed.
    pub(super) reasons: BTreeMap<TaskId, String>,
    /// Why a process that says it is this task may not take part. It stands until another one may.
    refused: BTreeMap<TaskId, Error>,
}

/// The chief's list and its door.
pub(crate) struct Chief {
    pub(super) who: Who,
    pub(super) others: Vec<(TaskId, Address)>,
    state: Mutex<State>,
    pub(super) started: Instant,
    pub(super) job: Arc<Job>,
    pub(super) options: ServerOptions,
    /// Trainers are told that the job ends, while it goes on for everybody else.
    stopping: AtomicBool,
}

impl Chief {
    pub(crate) fn new(who: Who, others: Vec<(TaskId, Address)>, job: Arc<Job>, options: ServerOptions) -> Self {
        let roster = Roster::new(others.iter().map(|(task, _)| *task), options.lease);
        job.set_phase(roster.phase());
        let state = Mutex::new(State { roster, reasons: BTreeMap::new(), refused: BTreeMap::new() });
        Self { who, others, state, started: Instant::now(), job, options, stopping: AtomicBool::new(false) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the roster and lets everybody here know.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Roster, Duration) -> T) -> T {
        let mut state = self.lock();
        let result = change(&mut state.roster, self.started.elapsed());
        self.job.add_lost(state.roster.take_lost());
        let absent = state.roster.lost_servers().next().is_some();
        self.job.note_servers(state.roster.take_returned(), absent);
        if let Some(failure) = state.roster.failure() {
            self.job.note_failure(failure.clone());
        }
        self.job.set_phase(state.roster.phase());
        result
    }

    /// Workers may come and go as they like.
    pub(crate) fn take_any_workers(&self) {
        self.change(|roster, _| roster.take_any_workers());
    }

    /// Takes the job over from a former chief: of the lives that the servers know, those that are nobody's now are lost.
    /// Tasks that have not been heard of have a lease's time to say that they are here.
    pub(crate) fn take_over(&self, known: BTreeSet<(TaskId, Incarnation)>) {
        // A lease of awake time: should this process be stopped meanwhile, the others still have all of theirs.
        let (begun, mut clock) = (Instant::now(), AwakeClock::new(self.options.lease / 8));
        let mut waited = Duration::ZERO;
        let silent = || {
            let state = self.lock();
            let here: BTreeSet<TaskId> = state.roster.lives().map(|(task, _)| task).collect();
            known.iter().any(|(task, _)| *task != self.who.task && !here.contains(task))
        };
        while silent() && waited < self.options.lease && self.job.phase() < Phase::Ending {
            std::thread::sleep(Duration::from_millis(20));
            waited = clock.read(begun.elapsed());
        }
        self.job.add_lost(known.difference(&self.live()).copied().collect());
    }

    /// The incarnations of the tasks that are here, this one among them.
    pub(crate) fn live(&self) -> BTreeSet<(TaskId, Incarnation)> {
        let mut here: BTreeSet<_> = self.lock().roster.lives().collect();
        here.insert((self.who.task, self.who.incarnation));
        here
    }

    /// Tells the other trainers to stop, with their next beat; servers stay.
    pub(crate) fn stop_trainers(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Whether other trainers are at work.
    pub(crate) fn has_trainers(&self) -> bool {
        self.lock().roster.trainers_here()
    }

    /// From now on a lost server may come back: there is something to restore it from.
    pub(crate) fn wait_for_servers(&self) {
        self.change(|roster, _| roster.wait_for_servers(self.options.server_grace));
    }

    /// Ends the job badly; the others hear it with their next beat.
    pub(crate) fn fail(&self, error: Error) {
        self.change(|roster, now| roster.fail(now, error));
    }

    /// Ends the job, well or badly, and waits until everybody knows, for at most 2 s.
    pub(crate) fn end(&self, failure: Option<Error>) {
        // A task that was refused learns why from the chief's next answer: there must be one.
        let refused = failure.is_some() && !self.lock().roster.missing().is_empty();
        match failure {
            Some(error) => self.change(|roster, now| roster.fail(now, error)),
            None => self.change(Roster::end),
        }
        // Awake time: a chief that is stopped here still tells the others when it goes on.
        let (begun, mut clock) = (Instant::now(), AwakeClock::new(Duration::from_millis(100)));
        let (mut now, mut told) = (Duration::ZERO, None);
        while now < LONGEST_END {
            let (gone, all_told) = self.change(|roster, now| {
                roster.tick(now);
                let over = roster.phase() == Phase::Over;
                (over && roster.everybody_is_gone(), over && roster.everybody_knows())
            });
            // An answer that was made has not arrived yet: those who hear it say goodbye.
            let told_for = all_told.then(|| now - *told.get_or_insert(now));
            if gone || told_for.is_some_and(|told_for| told_for > GOODBYE) {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
            now = clock.read(begun.elapsed());
        }
        self.change(|roster, now| roster.tick(now));
        if refused {
            std::thread::sleep((self.options.beat * 5).min(Duration::from_secs(1)));
        }
    }

    /// Lets time pass until the job is over. Runs where beats are heard, so that time stands still for leases whenever
    /// beats are not heard because of this process.
    pub(crate) async fn tick(&self) {
        while self.job.phase() != Phase::Over {
            let events = self.change(|roster, now| {
                roster.tick(now);
                roster.take_events()
            });
            events.into_iter().for_each(|event| self.log(event));
            tokio::time::sleep(self.options.beat).await;
        }
    }

    fn log(&self, event: RosterEvent) {
        let line = match event {
            RosterEvent::ServerLost(task) => {
                format!("{task} is lost; waiting {} s for it to come back", self.options.server_grace.as_secs())
            }
            RosterEvent::ServerBack(task) => format!("{task} is back, with everything that it held"),
            RosterEvent::ServerStartedAgain(task) => {
                format!("{task} is back and holds nothing; its part of the newest checkpoint comes next")
            }
            RosterEvent::ChiefStalled(time) => {
                format!("this process did not run for {:.1} s; nobody's lease ends for that", time.as_secs_f32())
            }
        };
        (self.options.say)(&format!("{}: {line}", self.who.task));
    }

    /// Notes that a process may not be this task of the job, which goes on forming: the right one may still come.
    pub(super) fn refuse(&self, task: TaskId, error: &Error) {
        let mut state = self.lock();
        let known = state.refused.insert(task, error.clone());
        let missing = state.roster.missing().contains(&task);
        drop(state);
        let same = |known: Error| (known.code(), known.why()) == (error.code(), error.why());
        if missing && !known.is_some_and(same) {
            (self.options.say)(&format!(
                "{}: {task} is refused ({}) and still waited for: {error}",
                self.who.task,
                error.code()
            ));
        }
    }

    pub(super) fn missing_line(&self) -> String {
        let state = self.lock();
        let list: Vec<String> = self.missing(&state).iter().map(|m| format!("{} at {} ({})", m.0, m.1, m.2)).collect();
        format!("{}: waiting for {} of {} tasks: {}", self.who.task, list.len(), self.others.len() + 1, list.join(", "))
    }

    /// The tasks that have never come: where each is looked for, and why it is missing.
    fn missing<'a>(&'a self, state: &State) -> Vec<(TaskId, &'a Address, String)> {
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
        self.who.identity()
    }

    fn beat(&self, beat: BeatRequest) -> Result<BeatReply> {
        let peer =
            beat.who.clone().ok_or_else(|| Error::new(Code::BadMessage, "a heartbeat does not say whose it is"))?;
        let task: TaskId = peer.task.parse()?;
        if let Err(error) = check_peer(&self.who, &peer) {
            // A task of another job has nothing to do with this one's.
            if error.code() != Code::WrongJob {
                self.refuse(task, &error);
            }
            return Err(error);
        }
        let mood = match beat.mood() {
            beat_request::Mood::Here => Mood::Here,
            beat_request::Mood::Done => Mood::Done,
            beat_request::Mood::Leaving => Mood::Leaving,
            beat_request::Mood::Failed => {
                let code = Code::from_number(beat.code).unwrap_or(Code::Internal);
                Mood::Failed(Error::new(code, &beat.reason).relayed())
            }
        };
        let phase = self.change(|roster, now| {
            if beat.formed {
                roster.formed_before(now);
            }
            roster.beat(now, task, Incarnation(peer.incarnation), mood)
        })?;
        let stops = task.role != Role::Ps && self.stopping.load(Ordering::Acquire);
        let phase = if stops { phase.max(Phase::Ending) } else { phase };
        let state = self.lock();
        let missing = self.missing(&state).into_iter().map(|(task, address, reason)| Missing {
            task: task.to_string(),
            address: address.to_string(),
            reason,
        });
        let failure = state.roster.failure();
        Ok(BeatReply {
            phase: to_wire(phase).into(),
            missing: missing.collect(),
            failure: failure.map(ToString::to_string).unwrap_or_default(),
            failure_code: failure.map_or(0, |error| error.code().number()),
            chief_incarnation: self.who.incarnation.0,
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
