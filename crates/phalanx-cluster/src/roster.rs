//! Who has come, who is missing, and where the job stands: the chief's view. Pure; time is passed in.

use phalanx_base::{Code, Error, Fault, Incarnation, Result, Role, TaskId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Some tasks have never come.
    Forming,
    /// All have come.
    Running,
    /// Trainers should stop; servers still answer.
    Ending,
    /// Everybody should go.
    Over,
}

/// How a task feels, as its heartbeat says.
#[derive(Clone, Debug)]
pub enum Mood {
    /// At work.
    Here,
    /// Done; it will not come back.
    Leaving,
    /// It failed.
    Failed(Error),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Here,
    Gone,
}

#[derive(Clone, Debug)]
struct Member {
    incarnation: Incarnation,
    last_beat: Duration,
    state: State,
    told_over: bool,
}

/// The chief's list of tasks.
///
/// ```
/// use phalanx_base::{Incarnation, Role, TaskId};
/// use phalanx_cluster::{Mood, Phase, Roster};
/// use std::time::Duration;
/// let worker = TaskId::new(Role::Worker, 0);
/// let mut roster = Roster::new([worker], Duration::from_secs(5));
/// assert_eq!(roster.missing(), [worker]);
/// roster.beat(Duration::ZERO, worker, Incarnation(1), Mood::Here)?;
/// assert_eq!(roster.phase(), Phase::Running);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Roster {
    expected: Vec<TaskId>,
    members: BTreeMap<TaskId, Member>,
    lease: Duration,
    phase: Phase,
    ending_since: Duration,
    failure: Option<Error>,
    lost: Vec<(TaskId, Incarnation)>,
    /// How long a lost server may take to come back; `None`: what it held is lost for good.
    server_grace: Option<Duration>,
    servers_lost: BTreeMap<TaskId, Duration>,
    returned: Vec<TaskId>,
    /// Workers may come and go as they like, also such that nobody listed.
    any_workers: bool,
    /// Tasks that a second process says it is.
    contested: BTreeSet<TaskId>,
}

impl Roster {
    /// How long trainers have to stop before servers are let go too.
    const ENDING: Duration = Duration::from_millis(1500);

    /// A job that needs `expected` beside the chief. A task that is silent for `lease` counts as lost.
    #[must_use]
    pub fn new(expected: impl IntoIterator<Item = TaskId>, lease: Duration) -> Self {
        let expected: Vec<TaskId> = expected.into_iter().collect();
        let phase = if expected.is_empty() { Phase::Running } else { Phase::Forming };
        let ending_since = Duration::ZERO;
        Self {
            expected,
            members: BTreeMap::new(),
            lease,
            phase,
            ending_since,
            failure: None,
            lost: Vec::new(),
            server_grace: None,
            servers_lost: BTreeMap::new(),
            returned: Vec::new(),
            any_workers: false,
            contested: BTreeSet::new(),
        }
    }

    /// From now on the job does not need every worker: all servers and one worker are enough to begin, and workers that
    /// nobody listed may join.
    pub fn take_any_workers(&mut self) {
        self.any_workers = true;
        self.form();
    }

    /// Whether those who are here are enough.
    fn form(&mut self) {
        let enough = if self.any_workers {
            let missing = self.missing();
            missing.iter().all(|task| task.role == Role::Worker) && self.trainers_here()
        } else {
            self.missing().is_empty()
        };
        if self.phase == Phase::Forming && enough {
            self.phase = Phase::Running;
        }
    }

    /// From now on a lost server may come back within `grace`: there is something to restore it from.
    pub fn wait_for_servers(&mut self, grace: Duration) {
        self.server_grace = Some(grace);
    }

    /// Takes a heartbeat.
    ///
    /// # Errors
    /// When the task is not one of the job, or another live process is that task.
    pub fn beat(&mut self, now: Duration, task: TaskId, incarnation: Incarnation, mood: Mood) -> Result<Phase> {
        let welcome = self.any_workers && task.role == Role::Worker;
        if !welcome && !self.expected.contains(&task) {
            return Err(Error::new(Code::NoSuchTask, format!("{task} is not a task of this job"))
                .because("the chief's cluster does not list it")
                .help("give every task the same cluster"));
        }
        match self.members.get(&task) {
            Some(known) if known.incarnation != incarnation => {
                if known.state == State::Here && now.saturating_sub(known.last_beat) <= self.lease {
                    self.contested.insert(task);
                    return Err(Error::new(Code::DuplicateTask, format!("another live process is {task}"))
                        .because(format!("it was heard {:.1} s ago", (now - known.last_beat).as_secs_f32()))
                        .help("give each process a task index of its own, or stop the other one"));
                }
                if task.role == Role::Ps {
                    self.servers_lost.remove(&task);
                    self.returned.push(task);
                } else if known.state == State::Here {
                    self.lost.push((task, known.incarnation));
                }
            }
            _ => {}
        }
        let told_over = self.phase == Phase::Over;
        let state = if matches!(mood, Mood::Here) { State::Here } else { State::Gone };
        self.members.insert(task, Member { incarnation, last_beat: now, state, told_over });
        self.form();
        if state == State::Gone && self.phase < Phase::Ending {
            self.gone(now, task, incarnation, mood);
        }
        self.tick(now);
        Ok(self.phase)
    }

    fn gone(&mut self, now: Duration, task: TaskId, incarnation: Incarnation, mood: Mood) {
        let failure = if let Mood::Failed(error) = mood { Some(error) } else { None };
        match failure {
            _ if task.role == Role::Ps => {
                let why = failure.map_or_else(|| "it left".to_owned(), |failure| failure.to_string());
                self.server_lost(now, task, &why);
            }
            // The model or its data are wrong: another worker would fail the same way.
            Some(error) if matches!(error.code().fault(), Fault::User | Fault::Internal) => {
                self.fail(now, Error::new(error.code(), format!("{task} failed")).because(error));
            }
            // A trainer that failed may have left a step half pushed.
            Some(_) => self.lost.push((task, incarnation)),
            None => {}
        }
    }

    /// Lets time pass: silent tasks become lost ones, an ending job becomes an ended one.
    pub fn tick(&mut self, now: Duration) {
        if self.phase == Phase::Ending && (now >= self.ending_since + Self::ENDING || !self.trainers_here()) {
            self.phase = Phase::Over;
        }
        if self.phase != Phase::Running {
            return;
        }
        self.give_servers_up(now);
        let silent = |member: &Member| member.state == State::Here && now.saturating_sub(member.last_beat) > self.lease;
        let silent: Vec<TaskId> = self.members.iter().filter(|(_, m)| silent(m)).map(|(&task, _)| task).collect();
        for task in silent {
            let Some(member) = self.members.get_mut(&task) else { continue };
            member.state = State::Gone;
            let incarnation = member.incarnation;
            if task.role == Role::Ps {
                self.server_lost(now, task, &format!("it has been silent for {:.1} s", self.lease.as_secs_f32()));
            } else {
                self.lost.push((task, incarnation));
            }
        }
    }

    /// The tasks that are here and have been silent for so long, or that another process says it is.
    #[must_use]
    pub fn doubtful(&self, now: Duration, silent_for: Duration) -> Vec<(TaskId, Incarnation)> {
        let here = self.members.iter().filter(|(_, member)| member.state == State::Here);
        let doubtful = here.filter(|(task, member)| {
            now.saturating_sub(member.last_beat) > silent_for || self.contested.contains(*task)
        });
        doubtful.map(|(&task, member)| (task, member.incarnation)).collect()
    }

    /// A task's process is known to be gone: it is lost now, and not only when its lease is over.
    pub fn died(&mut self, now: Duration, task: TaskId, incarnation: Incarnation, why: &str) {
        self.contested.remove(&task);
        let found = self.members.get_mut(&task).filter(|member| member.incarnation == incarnation);
        let Some(member) = found.filter(|member| member.state == State::Here) else { return };
        if self.phase != Phase::Running {
            return;
        }
        member.state = State::Gone;
        if task.role == Role::Ps {
            self.server_lost(now, task, why);
        } else {
            self.lost.push((task, incarnation));
        }
    }

    /// Waits for a server where that makes sense, and ends the job where it does not.
    fn server_lost(&mut self, now: Duration, task: TaskId, why: &str) {
        if self.server_grace.is_some() {
            self.servers_lost.entry(task).or_insert(now);
            return;
        }
        let error = Error::new(Code::ServerLost, format!("{task} is gone, and the parameters it held with it"));
        self.fail(
            now,
            error.because(why).help("see its log, then start the job again; with a model_dir it can come back"),
        );
    }

    /// Ends the job if a server has not come back in time.
    fn give_servers_up(&mut self, now: Duration) {
        let Some(grace) = self.server_grace else { return };
        let late = self.servers_lost.iter().find(|(_, since)| now.saturating_sub(**since) > grace);
        if let Some((&task, _)) = late {
            let error = Error::new(Code::ServerLost, format!("{task} is gone and did not come back"));
            let why = format!("it was waited for {} s", grace.as_secs());
            self.fail(now, error.because(why).help("start the job again; it goes on from the newest checkpoint"));
        }
    }

    /// The servers that are lost and waited for.
    pub fn lost_servers(&self) -> impl Iterator<Item = TaskId> {
        self.servers_lost.keys().copied()
    }

    /// Servers that were started anew since this was last asked: they hold nothing.
    pub fn take_returned(&mut self) -> Vec<TaskId> {
        std::mem::take(&mut self.returned)
    }

    /// Ends the job well.
    pub fn end(&mut self, now: Duration) {
        if self.phase < Phase::Ending {
            self.phase = Phase::Ending;
            self.ending_since = now;
        }
        self.tick(now);
    }

    /// Ends the job with an error; the first one counts.
    pub fn fail(&mut self, now: Duration, error: Error) {
        self.failure.get_or_insert(error);
        self.end(now);
    }

    /// Where the job stands.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Why the job ended, if it ended badly.
    #[must_use]
    pub fn failure(&self) -> Option<&Error> {
        self.failure.as_ref()
    }

    /// The tasks that have never come.
    #[must_use]
    pub fn missing(&self) -> Vec<TaskId> {
        self.expected.iter().filter(|task| !self.members.contains_key(task)).copied().collect()
    }

    /// The lives of the tasks that are here.
    pub fn lives(&self) -> impl Iterator<Item = (TaskId, Incarnation)> {
        let here = self.members.iter().filter(|(_, member)| member.state == State::Here);
        here.map(|(&task, member)| (task, member.incarnation))
    }

    /// Trainers that were lost since this was last asked. Each may have left a step half pushed.
    pub fn take_lost(&mut self) -> Vec<(TaskId, Incarnation)> {
        std::mem::take(&mut self.lost)
    }

    /// Whether nobody is here any more.
    #[must_use]
    pub fn everybody_is_gone(&self) -> bool {
        self.members.values().all(|member| member.state == State::Gone)
    }

    /// Whether every task that is here has been told that the job is over.
    #[must_use]
    pub fn everybody_knows(&self) -> bool {
        self.members.values().all(|member| member.state == State::Gone || member.told_over)
    }

    /// Whether a trainer beside the chief is here.
    #[must_use]
    pub fn trainers_here(&self) -> bool {
        self.members.iter().any(|(task, member)| task.role != Role::Ps && member.state == State::Here)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(5);
    const PS: TaskId = TaskId { role: Role::Ps, index: 0 };
    const WORKER: TaskId = TaskId { role: Role::Worker, index: 0 };

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn running() -> Roster {
        let mut roster = Roster::new([PS, WORKER], LEASE);
        for task in [PS, WORKER] {
            roster.beat(seconds(0), task, Incarnation(1), Mood::Here).unwrap();
        }
        roster
    }

    #[test]
    fn a_job_runs_once_everybody_has_come() {
        let mut roster = Roster::new([PS, WORKER], LEASE);
        assert_eq!(roster.beat(seconds(0), PS, Incarnation(1), Mood::Here).unwrap(), Phase::Forming);
        assert_eq!(roster.missing(), [WORKER]);
        assert_eq!(roster.beat(seconds(4), WORKER, Incarnation(1), Mood::Here).unwrap(), Phase::Running);
    }

    #[test]
    fn a_job_that_takes_any_workers_needs_its_servers_and_one_worker() {
        let other = TaskId::new(Role::Worker, 1);
        let mut roster = Roster::new([PS, WORKER, other], LEASE);
        roster.take_any_workers();
        assert_eq!(roster.beat(seconds(0), other, Incarnation(1), Mood::Here).unwrap(), Phase::Forming);
        assert_eq!(roster.beat(seconds(0), PS, Incarnation(1), Mood::Here).unwrap(), Phase::Running);
        let unlisted = TaskId::new(Role::Worker, 9);
        assert_eq!(roster.beat(seconds(1), unlisted, Incarnation(1), Mood::Here).unwrap(), Phase::Running);
        let server = TaskId::new(Role::Ps, 1);
        assert!(roster.beat(seconds(1), server, Incarnation(1), Mood::Here).is_err());
    }

    #[test]
    fn a_second_live_process_with_one_identity_is_refused_and_a_restarted_one_is_not() {
        let mut roster = running();
        let refused = roster.beat(seconds(1), WORKER, Incarnation(2), Mood::Here).unwrap_err();
        assert_eq!(refused.code(), Code::DuplicateTask);
        roster.beat(seconds(4), PS, Incarnation(1), Mood::Here).unwrap();
        assert_eq!(roster.beat(seconds(6), WORKER, Incarnation(2), Mood::Here).unwrap(), Phase::Running);
        assert_eq!(roster.take_lost(), [(WORKER, Incarnation(1))]);
    }

    #[test]
    fn a_process_that_is_known_to_be_gone_is_lost_at_once() {
        let mut roster = running();
        assert!(roster.doubtful(seconds(1), seconds(2)).is_empty());
        assert!(roster.beat(seconds(1), WORKER, Incarnation(2), Mood::Here).is_err());
        assert_eq!(roster.doubtful(seconds(1), seconds(2)), [(WORKER, Incarnation(1))], "another says it is that task");
        roster.died(seconds(1), WORKER, Incarnation(9), "somebody else");
        assert!(roster.take_lost().is_empty());
        roster.died(seconds(1), WORKER, Incarnation(1), "nobody listens there");
        assert_eq!(roster.take_lost(), [(WORKER, Incarnation(1))]);
        assert_eq!(roster.beat(seconds(1), WORKER, Incarnation(2), Mood::Here).unwrap(), Phase::Running);
        assert!(roster.take_lost().is_empty(), "told once");
    }

    #[test]
    fn a_silent_worker_is_lost_and_the_job_goes_on() {
        let mut roster = running();
        roster.beat(seconds(6), PS, Incarnation(1), Mood::Here).unwrap();
        assert_eq!((roster.take_lost().len(), roster.phase()), (1, Phase::Running));
        assert!(roster.take_lost().is_empty(), "told once");
    }

    #[test]
    fn a_silent_server_ends_the_job_with_an_error() {
        let mut roster = running();
        roster.beat(seconds(6), WORKER, Incarnation(1), Mood::Here).unwrap();
        assert_eq!(roster.phase(), Phase::Ending);
        assert_eq!(roster.failure().unwrap().code(), Code::ServerLost);
    }

    #[test]
    fn a_server_that_can_be_restored_is_waited_for_and_then_given_up() {
        let mut roster = running();
        roster.wait_for_servers(seconds(60));
        roster.beat(seconds(6), WORKER, Incarnation(1), Mood::Here).unwrap();
        assert_eq!((roster.phase(), roster.lost_servers().collect::<Vec<_>>()), (Phase::Running, vec![PS]));
        let mut returned = roster.clone();
        returned.beat(seconds(30), PS, Incarnation(2), Mood::Here).unwrap();
        assert_eq!((returned.take_returned(), returned.lost_servers().count()), (vec![PS], 0));
        returned.beat(seconds(70), WORKER, Incarnation(1), Mood::Here).unwrap();
        assert_eq!(returned.phase(), Phase::Running);
        for at in (10..90).step_by(4) {
            roster.beat(seconds(at), WORKER, Incarnation(1), Mood::Here).unwrap();
        }
        assert_eq!(roster.failure().unwrap().code(), Code::ServerLost);
    }

    #[test]
    fn servers_are_let_go_after_the_trainers() {
        let mut roster = running();
        roster.end(seconds(1));
        assert_eq!(roster.beat(seconds(1), PS, Incarnation(1), Mood::Here).unwrap(), Phase::Ending);
        assert!(!roster.everybody_knows());
        assert_eq!(roster.beat(seconds(1), WORKER, Incarnation(1), Mood::Leaving).unwrap(), Phase::Over);
        assert_eq!(roster.beat(seconds(1), PS, Incarnation(1), Mood::Here).unwrap(), Phase::Over);
        assert!(roster.everybody_knows() && !roster.everybody_is_gone());
        roster.beat(seconds(1), PS, Incarnation(1), Mood::Leaving).unwrap();
        assert!(roster.everybody_is_gone());
    }

    #[test]
    fn a_trainer_that_does_not_stop_does_not_keep_the_job_from_ending() {
        let mut roster = running();
        roster.end(seconds(1));
        roster.tick(seconds(3));
        assert_eq!(roster.phase(), Phase::Over);
    }

    #[test]
    fn a_workers_own_mistake_ends_the_job_and_a_lost_connection_does_not() {
        for (code, phase) in [(Code::NotFinite, Phase::Ending), (Code::OutcomeUnknown, Phase::Running)] {
            let mut roster = running();
            let mood = Mood::Failed(Error::new(code, "x"));
            roster.beat(seconds(1), WORKER, Incarnation(1), mood).unwrap();
            assert!(roster.phase() >= phase && (phase == Phase::Ending) == roster.failure().is_some());
        }
    }

    #[test]
    fn a_task_nobody_listed_is_refused() {
        let stranger = TaskId::new(Role::Worker, 7);
        let refused = running().beat(seconds(0), stranger, Incarnation(1), Mood::Here).unwrap_err();
        assert_eq!(refused.code(), Code::NoSuchTask);
    }
}
