//! The chief's side: it keeps the roster, looks for who is missing, and says when the job is over.

use super::{Reminder, Who, check_peer};
use crate::ServerOptions;
use crate::job::Job;
use futures_util::future::join_all;
use phalanx_base::{Code, Error, Incarnation, Result, Role, TaskId};
use phalanx_cluster::{Mood, Phase, Roster};
use phalanx_wire::Address;
use phalanx_wire::control::{self, Client};
use phalanx_wire::proto::control::{BeatReply, BeatRequest, Identity, Missing, beat_reply, beat_request};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long those who were told that the job is over have to say goodbye.
const GOODBYE: Duration = Duration::from_millis(500);

struct State {
    roster: Roster,
    /// Why a task is missing, as the last look at its address showed.
    reasons: BTreeMap<TaskId, String>,
}

/// The chief's list and its door.
pub(crate) struct Chief {
    who: Who,
    others: Vec<(TaskId, Address)>,
    state: Mutex<State>,
    started: Instant,
    job: Arc<Job>,
    options: ServerOptions,
    /// Trainers are told that the job ends, while it goes on for everybody else.
    stopping: AtomicBool,
}

impl Chief {
    pub(crate) fn new(who: Who, others: Vec<(TaskId, Address)>, job: Arc<Job>, options: ServerOptions) -> Self {
        let roster = Roster::new(others.iter().map(|(task, _)| *task), options.lease);
        job.set_phase(roster.phase());
        let state = Mutex::new(State { roster, reasons: BTreeMap::new() });
        Self { who, others, state, started: Instant::now(), job, options, stopping: AtomicBool::new(false) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the roster and lets everybody here know.
    fn change<T>(&self, change: impl FnOnce(&mut Roster, Duration) -> T) -> T {
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
        let until = Instant::now() + self.options.lease;
        let silent = || {
            let state = self.lock();
            let here: BTreeSet<TaskId> = state.roster.lives().map(|(task, _)| task).collect();
            known.iter().any(|(task, _)| *task != self.who.task && !here.contains(task))
        };
        while silent() && Instant::now() < until && self.job.phase() < Phase::Ending {
            std::thread::sleep(Duration::from_millis(20));
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
        let deadline = Instant::now() + Duration::from_secs(2);
        let mut told = None;
        while Instant::now() < deadline {
            let (gone, all_told) = self.change(|roster, now| {
                roster.tick(now);
                let over = roster.phase() == Phase::Over;
                (over && roster.everybody_is_gone(), over && roster.everybody_knows())
            });
            // An answer that was made has not arrived yet: those who hear it say goodbye.
            let told_for = all_told.then(|| told.get_or_insert_with(Instant::now).elapsed());
            if gone || told_for.is_some_and(|told_for| told_for > GOODBYE) {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.change(|roster, now| roster.tick(now));
        if refused {
            std::thread::sleep((self.options.beat * 5).min(Duration::from_secs(1)));
        }
    }

    /// Watches until the job is over.
    pub(crate) async fn watch(&self) {
        let mut reminder = Reminder::new();
        let mut clients: BTreeMap<TaskId, Client> = BTreeMap::new();
        let mut waited_for = Vec::new();
        while self.job.phase() != Phase::Over {
            let lost: Vec<TaskId> = self.change(|roster, now| {
                roster.tick(now);
                roster.lost_servers().collect()
            });
            for task in lost.iter().filter(|task| !waited_for.contains(*task)) {
                let seconds = self.options.server_grace.as_secs();
                (self.options.say)(&format!(
                    "{}: {task} is lost; waiting {seconds} s for it to come back",
                    self.who.task
                ));
            }
            waited_for = lost;
            self.look_after_the_silent().await;
            let missing = self.lock().roster.missing();
            if self.job.phase() == Phase::Forming {
                if let Err(error) = self.look_for(&missing, &mut clients).await {
                    self.change(|roster, now| roster.fail(now, error));
                    continue;
                }
                let still = self.lock().roster.missing();
                if !still.is_empty() && reminder.is_due() {
                    (self.options.say)(&self.missing_line());
                }
                if self.started.elapsed() > self.options.formation_deadline {
                    let error = Error::new(Code::FormationDeadline, "the job did not form before the deadline");
                    let error =
                        error.because(self.missing_line()).help("start the missing tasks, or raise the deadline");
                    self.change(|roster, now| roster.fail(now, error));
                }
            }
            tokio::time::sleep(self.options.beat).await;
        }
    }

    /// A task that is silent may only be slow, until its lease is over. Where nobody listens at its address any more, or
    /// another life does, it is gone, and nobody need wait.
    async fn look_after_the_silent(&self) {
        let silent_for = self.options.beat * 2;
        let doubtful = self.lock().roster.doubtful(self.started.elapsed(), silent_for);
        for (task, incarnation) in doubtful {
            let Some((_, address)) = self.others.iter().find(|(other, _)| *other == task) else { continue };
            if let Some(why) = gone(address, incarnation, self.options.token.clone()).await {
                self.change(|roster, now| roster.died(now, task, incarnation, why));
            }
        }
    }

    fn missing_line(&self) -> String {
        let state = self.lock();
        let reason = |task: &TaskId| state.reasons.get(task).map_or("not heard of yet", String::as_str).to_owned();
        let list: Vec<String> =
            self.missing(&state).iter().map(|m| format!("{} at {} ({})", m.0, m.1, reason(&m.0))).collect();
        format!("{}: waiting for {} of {} tasks: {}", self.who.task, list.len(), self.others.len() + 1, list.join(", "))
    }

    fn missing<'a>(&'a self, state: &State) -> Vec<&'a (TaskId, Address)> {
        let missing = state.roster.missing();
        self.others.iter().filter(|(task, _)| missing.contains(task)).collect()
    }

    /// Looks at the addresses of missing tasks. What is plainly wrong ends the job; what may still come does not.
    async fn look_for(&self, missing: &[TaskId], clients: &mut BTreeMap<TaskId, Client>) -> Result<()> {
        for (task, address) in self.others.iter().filter(|(task, _)| missing.contains(task)) {
            clients.entry(*task).or_insert_with(|| Client::new(address, self.options.token.clone()));
        }
        let looks = clients.iter_mut().filter(|(task, _)| missing.contains(task)).map(|(&task, client)| async move {
            let look = tokio::time::timeout(Duration::from_secs(2), client.identify()).await;
            (
                task,
                look.unwrap_or_else(|_| {
                    Err(Error::new(Code::PeerUnreachable, "no answer").because("no answer within 2 s"))
                }),
            )
        });
        for (task, look) in join_all(looks).await {
            let reason = match look {
                Ok(peer) => self.judge(task, &peer)?,
                Err(error) if error.code() == Code::WrongToken => return Err(error.at(task.to_string())),
                Err(error) => error.why().unwrap_or(error.what()).to_owned(),
            };
            self.lock().reasons.insert(task, reason);
        }
        Ok(())
    }

    fn judge(&self, task: TaskId, peer: &Identity) -> Result<String> {
        check_peer(&self.who, peer)?;
        Ok(if peer.task == task.to_string() {
            "it is up and has not said hello yet".to_owned()
        } else {
            format!("{} listens there", peer.task)
        })
    }
}

/// Why we know that this life of a task is over; `None` where we do not.
async fn gone(address: &Address, life: Incarnation, token: Option<phalanx_wire::Token>) -> Option<&'static str> {
    const LONGEST: Duration = Duration::from_millis(500);
    let connect = tokio::net::TcpStream::connect((address.host(), address.port()));
    match tokio::time::timeout(LONGEST, connect).await {
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            Some("nobody listens at its address")
        }
        Ok(Ok(_)) => {
            let mut client = Client::new(address, token);
            let who = tokio::time::timeout(LONGEST, client.identify()).await.ok()?.ok()?;
            (who.incarnation != life.0).then_some("it was started again")
        }
        _ => None,
    }
}

impl control::Handler for Chief {
    fn identify(&self) -> Identity {
        self.who.identity()
    }

    fn beat(&self, beat: BeatRequest) -> Result<BeatReply> {
        let peer =
            beat.who.clone().ok_or_else(|| Error::new(Code::BadMessage, "a heartbeat does not say whose it is"))?;
        if let Err(error) = check_peer(&self.who, &peer) {
            // It is of this job and will not go on with it: without it the job would only wait for its deadline.
            if error.code() == Code::WrongBuild && self.job.phase() == Phase::Forming {
                self.change(|roster, now| roster.fail(now, error.clone()));
            }
            return Err(error);
        }
        let task: TaskId = peer.task.parse()?;
        let mood = match beat.mood() {
            beat_request::Mood::Here => Mood::Here,
            beat_request::Mood::Leaving => Mood::Leaving,
            beat_request::Mood::Failed => {
                let code = Code::from_number(beat.code).unwrap_or(Code::Internal);
                Mood::Failed(Error::new(code, beat.reason).relayed())
            }
        };
        let phase = self.change(|roster, now| roster.beat(now, task, Incarnation(peer.incarnation), mood))?;
        let stops = task.role != Role::Ps && self.stopping.load(Ordering::Acquire);
        let phase = if stops { phase.max(Phase::Ending) } else { phase };
        let state = self.lock();
        let missing = self.missing(&state).into_iter().map(|(task, address)| Missing {
            task: task.to_string(),
            address: address.to_string(),
            reason: state.reasons.get(task).cloned().unwrap_or_default(),
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
