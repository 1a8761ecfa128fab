//! The chief's roster: which tasks have joined, are missing or lost, and the phase of the job. Pure; time is passed in.

mod lost;
#[cfg(test)]
mod tests;

use crate::AwakeClock;
use lost::LostTasks;
use phalanx_base::{Code, Error, Fault, Incarnation, Result, Role, TaskId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The phase of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Some tasks have not joined yet.
    Forming,
    /// All have joined.
    Running,
    /// Trainers should stop; servers still answer.
    Ending,
    /// All tasks should end.
    Over,
}

/// The state of a task, as its heartbeat reports it.
#[derive(Clone, Debug)]
pub enum MemberState {
    /// Working.
    Here,
    /// Has finished its work and waits for the end of the job.
    Done,
    /// Done. It will not come back.
    Leaving,
    /// It failed.
    Failed(Error),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Here,
    Gone,
}

#[derive(Clone, Debug)]
struct Member {
    incarnation: Incarnation,
    last_beat: Duration,
    presence: Presence,
    /// Has finished its work.
    done: bool,
    told_over: bool,
}

/// An event that the chief logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RosterEvent {
    /// A parameter server is lost and waited for.
    ServerLost(TaskId),
    /// A lost parameter server is back in the same incarnation, with all its state.
    ServerBack(TaskId),
    /// A lost parameter server is back in another incarnation, without state.
    ServerStartedAgain(TaskId),
    /// The chief itself did not run for this long. No task is lost for that.
    ChiefStalled(Duration),
}

/// The chief's list of tasks.
///
/// Leases count the chief's awake time only ([`AwakeClock`]): a chief that was stopped for a minute has received no
/// heartbeat for a minute, but the other tasks were not silent.
///
/// ```
/// use phalanx_base::{Incarnation, Role, TaskId};
/// use phalanx_cluster::{MemberState, Phase, Roster};
/// use std::time::Duration;
/// let worker = TaskId::new(Role::Worker, 0);
/// let mut roster = Roster::new([worker], Duration::from_secs(5));
/// assert_eq!(roster.missing(), [worker]);
/// roster.beat(Duration::ZERO, worker, Incarnation(1), MemberState::Here)?;
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
    lost: LostTasks,
    /// Elastic mode: workers may join and leave at any time, including workers that the cluster spec does not list.
    any_workers: bool,
    /// When this chief learned that the job had formed under a previous chief.
    formed_before: Option<Duration>,
    /// Tasks that two processes claim to be.
    duplicates: BTreeSet<TaskId>,
    /// The chief's awake time, in which all times here are measured.
    clock: AwakeClock,
    /// Events that have not been logged yet.
    events: Vec<RosterEvent>,
}

impl Roster {
    /// How long trainers have to stop before servers are told to end.
    const ENDING: Duration = Duration::from_millis(1500);

    /// A gap between two readings of the chief's clock counts for at most this fraction of a lease.
    const STALL: u32 = 8;

    /// Creates the roster of a job that needs the tasks `expected` besides the chief. A task that is silent for `lease` is
    /// lost. Call [`Self::tick`] several times in an eighth of the lease: a longer gap counts as a stall of the chief.
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
            lost: LostTasks::default(),
            any_workers: false,
            formed_before: None,
            duplicates: BTreeSet::new(),
            clock: AwakeClock::new(lease / Self::STALL),
            events: Vec::new(),
        }
    }

    /// Returns the chief's awake time at `now`. Only the threads that receive heartbeats may read the clock.
    fn read_clock(&mut self, now: Duration) -> Duration {
        let gap = self.clock.gap(now);
        if gap > self.lease / 2 && self.phase == Phase::Running {
            self.events.push(RosterEvent::ChiefStalled(gap));
        }
        self.clock.read(now)
    }

    /// Enables elastic mode: all servers and one worker are enough to begin, and workers that the cluster spec does not list
    /// may join.
    pub fn take_any_workers(&mut self) {
        self.any_workers = true;
        self.form(Duration::ZERO);
    }

    /// Records that the job had formed before this chief started: the chief was restarted. A trainer that does not join
    /// within a lease has left or is lost, so the job continues without it.
    pub fn formed_before(&mut self, now: Duration) {
        let now = self.clock.peek(now);
        self.formed_before.get_or_insert(now);
    }

    /// Begins the job once enough tasks have joined.
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

    /// Lets lost servers come back within `grace`, because there is a checkpoint to restore them from.
    pub fn wait_for_servers(&mut self, grace: Duration) {
        self.lost.wait_for_servers(grace);
    }

    /// Handles a heartbeat.
    ///
    /// # Errors
    /// When the task does not belong to the job, or another live process is the same task.
    pub fn beat(
        &mut self,
        now: Duration,
        task: TaskId,
        incarnation: Incarnation,
        member_state: MemberState,
    ) -> Result<Phase> {
        let welcome = self.any_workers && task.role == Role::Worker;
        if !welcome && !self.expected.contains(&task) {
            return Err(Error::new(Code::NoSuchTask, format!("{task} is not a task of this job"))
                .because("the chief's cluster does not list it")
                .help("give every task the same cluster"));
        }
        let now = self.read_clock(now);
        match self.members.get(&task) {
            Some(known) if known.incarnation != incarnation => {
                if known.presence == Presence::Here && now.saturating_sub(known.last_beat) <= self.lease {
                    self.duplicates.insert(task);
                    return Err(Error::new(Code::DuplicateTask, format!("another live process is {task}"))
                        .because(format!("its last heartbeat was {:.1} s ago", (now - known.last_beat).as_secs_f32()))
                        .help("give each process a task index of its own, or stop the other one"));
                }
                if task.role == Role::Ps {
                    self.lost.started_again(task);
                    self.events.push(RosterEvent::ServerStartedAgain(task));
                } else if known.presence == Presence::Here {
                    self.lost.lose_trainer(task, known.incarnation);
                }
            }
            Some(_) if matches!(member_state, MemberState::Here) && self.lost.forgive_server(task) => {
                self.events.push(RosterEvent::ServerBack(task));
            }
            _ => {}
        }
        let told_over = self.phase == Phase::Over;
        let presence =
            if matches!(member_state, MemberState::Here | MemberState::Done) { Presence::Here } else { Presence::Gone };
        let done = matches!(member_state, MemberState::Done);
        self.members.insert(task, Member { incarnation, last_beat: now, presence, done, told_over });
        self.form(now);
        if presence == Presence::Gone && self.phase < Phase::Ending {
            self.gone(now, task, incarnation, member_state);
        }
        self.pass(now);
        Ok(self.phase)
    }

    fn gone(&mut self, now: Duration, task: TaskId, incarnation: Incarnation, member_state: MemberState) {
        match member_state {
            // The model or its data are wrong: another worker would fail the same way.
            MemberState::Failed(error)
                if task.role != Role::Ps && matches!(error.code().fault(), Fault::User | Fault::Internal) =>
            {
                self.fail_at(now, Error::new(error.code(), format!("{task} failed")).because(error));
            }
            // A trainer that failed may have left a step half pushed.
            MemberState::Failed(error) => self.lose(now, task, incarnation, &error.to_string()),
            _ if task.role == Role::Ps => self.lose(now, task, incarnation, "it left"),
            _ => {}
        }
    }

    /// Advances the time: silent tasks become lost, and an ending job ends.
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
        if let Err(error) = self.lost.check(now) {
            self.fail_at(now, error);
        }
        let silent =
            |member: &Member| member.presence == Presence::Here && now.saturating_sub(member.last_beat) > self.lease;
        let silent: Vec<TaskId> = self.members.iter().filter(|(_, m)| silent(m)).map(|(&task, _)| task).collect();
        for task in silent {
            let Some(member) = self.members.get_mut(&task) else { continue };
            member.presence = Presence::Gone;
            let incarnation = member.incarnation;
            let why = format!("it has been silent for {:.1} s", self.lease.as_secs_f32());
            self.lose(now, task, incarnation, &why);
        }
    }

    /// Returns the tasks that have been silent for longer than `silent_for`, or that a second process claims to be.
    #[must_use]
    pub fn suspected(&self, now: Duration, silent_for: Duration) -> Vec<(TaskId, Incarnation)> {
        let now = self.clock.peek(now);
        let here = self.members.iter().filter(|(_, member)| member.presence == Presence::Here);
        let suspected = here.filter(|(task, member)| {
            now.saturating_sub(member.last_beat) > silent_for || self.duplicates.contains(*task)
        });
        suspected.map(|(&task, member)| (task, member.incarnation)).collect()
    }

    /// Records that a task's process has ended: it is lost now, before its lease expires.
    pub fn died(&mut self, now: Duration, task: TaskId, incarnation: Incarnation, why: &str) {
        self.duplicates.remove(&task);
        let found = self.members.get_mut(&task).filter(|member| member.incarnation == incarnation);
        let Some(member) = found.filter(|member| member.presence == Presence::Here) else { return };
        if self.phase != Phase::Running {
            return;
        }
        member.presence = Presence::Gone;
        let now = self.clock.peek(now);
        self.lose(now, task, incarnation, why);
    }

    /// Records the loss of a task. A server that can be restored is waited for; one that cannot ends the job.
    fn lose(&mut self, now: Duration, task: TaskId, incarnation: Incarnation, why: &str) {
        if task.role != Role::Ps {
            self.lost.lose_trainer(task, incarnation);
            return;
        }
        match self.lost.lose_server(now, task, why) {
            Ok(true) => self.events.push(RosterEvent::ServerLost(task)),
            Ok(false) => {}
            Err(error) => self.fail_at(now, error),
        }
    }

    /// Returns the events since the last call.
    pub fn take_events(&mut self) -> Vec<RosterEvent> {
        std::mem::take(&mut self.events)
    }

    /// Returns the servers that are lost and waited for.
    pub fn lost_servers(&self) -> impl Iterator<Item = TaskId> {
        self.lost.servers()
    }

    /// Returns the servers that were restarted since the last call, and so are empty.
    pub fn take_returned(&mut self) -> Vec<TaskId> {
        self.lost.take_returned()
    }

    /// Ends the job successfully.
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

    /// Ends the job with an error. The first error is kept.
    pub fn fail(&mut self, now: Duration, error: Error) {
        let now = self.clock.peek(now);
        self.fail_at(now, error);
    }

    fn fail_at(&mut self, now: Duration, error: Error) {
        self.failure.get_or_insert(error);
        self.end_at(now);
    }

    /// Returns the phase of the job.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Returns why the job failed, if it did.
    #[must_use]
    pub fn failure(&self) -> Option<&Error> {
        self.failure.as_ref()
    }

    /// Returns the tasks that have not joined yet.
    #[must_use]
    pub fn missing(&self) -> Vec<TaskId> {
        self.expected.iter().filter(|task| !self.members.contains_key(task)).copied().collect()
    }

    /// Returns the incarnations of the tasks that are present.
    pub fn incarnations(&self) -> impl Iterator<Item = (TaskId, Incarnation)> {
        let here = self.members.iter().filter(|(_, member)| member.presence == Presence::Here);
        here.map(|(&task, member)| (task, member.incarnation))
    }

    /// Returns the trainers that were lost since the last call. Each may have left a step half pushed.
    pub fn take_lost(&mut self) -> Vec<(TaskId, Incarnation)> {
        self.lost.take_trainers()
    }

    /// Returns whether no task is present any more.
    #[must_use]
    pub fn everybody_is_gone(&self) -> bool {
        self.members.values().all(|member| member.presence == Presence::Gone)
    }

    /// Returns whether every present task has been told that the job is over.
    #[must_use]
    pub fn everybody_knows(&self) -> bool {
        self.members.values().all(|member| member.presence == Presence::Gone || member.told_over)
    }

    /// Returns whether a trainer other than the chief is present.
    #[must_use]
    pub fn trainers_here(&self) -> bool {
        let at_work = |member: &Member| member.presence == Presence::Here && !member.done;
        self.members.iter().any(|(task, member)| task.role != Role::Ps && at_work(member))
    }
}
