//! Who has come, who is missing, and where the job stands: the chief's view. Pure; time is passed in.

mod absent;
#[cfg(test)]
mod tests;

use crate::AwakeClock;
use absent::Absent;
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
    /// Has done its part and waits for the end of the job.
    Done,
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
    /// Has done its part: nothing more comes from it.
    done: bool,
    told_over: bool,
}

/// Something that the chief logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RosterEvent {
    /// A parameter server is lost and waited for.
    ServerLost(TaskId),
    /// A lost parameter server is back in the same incarnation, with everything that it held.
    ServerBack(TaskId),
    /// A lost parameter server is back in another incarnation, and holds nothing.
    ServerStartedAgain(TaskId),
    /// The chief itself did not run for this long. Nobody is lost for that.
    ChiefStalled(Duration),
}

/// The chief's list of tasks.
///
/// Leases count the chief's awake time only ([`AwakeClock`]): a chief that was stopped for a minute has heard nobody
/// for a minute, and that is not the others' silence.
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
    absent: Absent,
    /// Workers may come and go as they like, also such that nobody listed.
    any_workers: bool,
    /// When this chief heard that the job had formed under a former one.
    formed_before: Option<Duration>,
    /// Tasks that a second process says it is.
    contested: BTreeSet<TaskId>,
    /// The chief's awake time, which all times here are in.
    clock: AwakeClock,
    /// What was not taken yet of what is worth logging.
    events: Vec<RosterEvent>,
}

impl Roster {
    /// How long trainers have to stop before servers are let go too.
    const ENDING: Duration = Duration::from_millis(1500);

    /// A gap between two looks of the chief counts as silence of the others for this part of their lease at most.
    const STALL: u32 = 8;

    /// A job that needs `expected` beside the chief. A task that is silent for `lease` counts as lost. Let time pass
    /// ([`Self::tick`]) several times in an eighth of the lease: whatever is longer is taken for a stall of the chief.
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
            absent: Absent::default(),
            any_workers: false,
            formed_before: None,
            contested: BTreeSet::new(),
            clock: AwakeClock::new(lease / Self::STALL),
            events: Vec::new(),
        }
    }

    /// The chief's awake time at `now`. Only whoever hears the others may read the clock.
    fn read_clock(&mut self, now: Duration) -> Duration {
        let gap = self.clock.gap(now);
        if gap > self.lease / 2 && self.phase == Phase::Running {
            self.events.push(RosterEvent::ChiefStalled(gap));
        }
        self.clock.read(now)
    }

    /// From now on the job does not need every worker: all servers and one worker are enough to begin, and workers that
    /// nobody listed may join.
    pub fn take_any_workers(&mut self) {
        self.any_workers = true;
        self.form(Duration::ZERO);
    }

    /// Takes note that the job had formed before this chief began: the chief was started again. A trainer that does not
    /// come within a lease has left or is lost, so the job goes on without it.
    pub fn formed_before(&mut self, now: Duration) {
        let now = self.clock.peek(now);
        self.formed_before.get_or_insert(now);
    }

    /// Begins the job when enough tasks are here.
    fn form(&mut self, now: Duration) {
        if self.phase != Phase::Forming {
            return;
        }
        let missing = self.missing();
        let only_trainers = missing.iter().all(|task| task.role != Role::Ps);
        let waited = self.formed_before.is_some_and(|since| now.saturating_sub(since) > self.lease);
        let enough = if self.any_workers {
            missing.iter().all(|task| task.role == Role::Worker) && self.trainers_here()
        } else {
            missing.is_empty() || (only_trainers && waited)
        };
        if enough {
            self.phase = Phase::Running;
        }
    }

    /// From now on a lost server may come back within `grace`: there is something to restore it from.
    pub fn wait_for_servers(&mut self, grace: Duration) {
        self.absent.wait_for_servers(grace);
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
        let now = self.read_clock(now);
        match self.members.get(&task) {
            Some(known) if known.incarnation != incarnation => {
                if known.state == State::Here && now.saturating_sub(known.last_beat) <= self.lease {
                    self.contested.insert(task);
                    return Err(Error::new(Code::DuplicateTask, format!("another live process is {task}"))
                        .because(format!("it was heard {:.1} s ago", (now - known.last_beat).as_secs_f32()))
                        .help("give each process a task index of its own, or stop the other one"));
                }
                if task.role == Role::Ps {
                    self.absent.started_again(task);
                    self.events.push(RosterEvent::ServerStartedAgain(task));
                } else if known.state == State::Here {
                    self.absent.lose_trainer(task, known.incarnation);
                }
            }
            Some(_) if matches!(mood, Mood::Here) && self.absent.forgive_server(task) => {
                self.events.push(RosterEvent::ServerBack(task));
            }
            _ => {}
        }
        let told_over = self.phase == Phase::Over;
        let state = if matches!(mood, Mood::Here | Mood::Done) { State::Here } else { State::Gone };
        let done = matches!(mood, Mood::Done);
        self.members.insert(task, Member { incarnation, last_beat: now, state, done, told_over });
        self.form(now);
        if state == State::Gone && self.phase < Phase::Ending {
            self.gone(now, task, incarnation, mood);
        }
        self.pass(now);
        Ok(self.phase)
    }

    fn gone(&mut self, now: Duration, task: TaskId, incarnation: Incarnation, mood: Mood) {
        match mood {
            // The model or its data are wrong: another worker would fail the same way.
            Mood::Failed(error)
                if task.role != Role::Ps && matches!(error.code().fault(), Fault::User | Fault::Internal) =>
            {
                self.fail_at(now, Error::new(error.code(), format!("{task} failed")).because(error));
            }
            // A trainer that failed may have left a step half pushed.
            Mood::Failed(error) => self.lose(now, task, incarnation, &error.to_string()),
            _ if task.role == Role::Ps => self.lose(now, task, incarnation, "it left"),
            _ => {}
        }
    }

    /// Lets time pass: silent tasks become lost ones, an ending job becomes an ended one.
    pub fn tick(&mut self, now: Duration) {
        let now = self.read_clock(now);
        self.pass(now);
    }

    fn pass(&mut self, now: Duration) {
        self.form(now);
        if self.phase == Phase::Ending && (now >= self.ending_since + Self::ENDING || !self.trainers_here()) {
            self.phase = Phase::Over;
        }
        if self.phase != Phase::Running {
            return;
        }
        if let Err(error) = self.absent.check(now) {
            self.fail_at(now, error);
        }
        let silent = |member: &Member| member.state == State::Here && now.saturating_sub(member.last_beat) > self.lease;
        let silent: Vec<TaskId> = self.members.iter().filter(|(_, m)| silent(m)).map(|(&task, _)| task).collect();
        for task in silent {
            let Some(member) = self.members.get_mut(&task) else { continue };
            member.state = State::Gone;
            let incarnation = member.incarnation;
            let why = format!("it has been silent for {:.1} s", self.lease.as_secs_f32());
            self.lose(now, task, incarnation, &why);
        }
    }

    /// The tasks that are here and have been silent for so long, or that another process says it is.
    #[must_use]
    pub fn doubtful(&self, now: Duration, silent_for: Duration) -> Vec<(TaskId, Incarnation)> {
        let now = self.clock.peek(now);
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
        let now = self.clock.peek(now);
        self.lose(now, task, incarnation, why);
    }

    /// A task is gone without having done its part. A server is waited for where that makes sense, and ends the job where
    /// it does not.
    fn lose(&mut self, now: Duration, task: TaskId, incarnation: Incarnation, why: &str) {
        if task.role != Role::Ps {
            self.absent.lose_trainer(task, incarnation);
            return;
        }
        match self.absent.lose_server(now, task, why) {
            Ok(true) => self.events.push(RosterEvent::ServerLost(task)),
            Ok(false) => {}
            Err(error) => self.fail_at(now, error),
        }
    }

    /// Returns what is worth logging since this was last called.
    pub fn take_events(&mut self) -> Vec<RosterEvent> {
        std::mem::take(&mut self.events)
    }

    /// The servers that are lost and waited for.
    pub fn lost_servers(&self) -> impl Iterator<Item = TaskId> {
        self.absent.servers()
    }

    /// Servers that were started anew since this was last asked: they hold nothing.
    pub fn take_returned(&mut self) -> Vec<TaskId> {
        self.absent.take_returned()
    }

    /// Ends the job well.
    pub fn end(&mut self, now: Duration) {
        let now = self.clock.peek(now);
        self.end_at(now);
    }

    fn end_at(&mut self, now: Duration) {
        if self.phase < Phase::Ending {
            self.phase = Phase::Ending;
            self.ending_since = now;
        }
        self.pass(now);
    }

    /// Ends the job with an error; the first one counts.
    pub fn fail(&mut self, now: Duration, error: Error) {
        let now = self.clock.peek(now);
        self.fail_at(now, error);
    }

    fn fail_at(&mut self, now: Duration, error: Error) {
        self.failure.get_or_insert(error);
        self.end_at(now);
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
        self.absent.take_trainers()
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
        let at_work = |member: &Member| member.state == State::Here && !member.done;
        self.members.iter().any(|(task, member)| task.role != Role::Ps && at_work(member))
    }
}
