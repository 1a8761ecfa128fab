//! What to do when tasks end: pure decisions, with the time passed in.
//!
//! The chief's success is the job's. Then workers and the evaluator may finish what they do, parameter servers are told last;
//! a task that does not go is killed. A failure that another try may cure restarts that task alone, a few times within
//! [`Rules::restart_window`]. A worker that fails more often is given up where the job can go on without it; any other
//! failure ends the job. The root cause is the first failure that is the task's own: a task that only passes on what the
//! chief told it is named only if nobody else failed. A failed evaluator is reported and stops nobody.

use crate::{Class, Exit, Outcome};
use phalanx_base::{Role, TaskId};
use std::time::{Duration, Instant};

/// When a task that failed is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// Not at all.
    Never,
    /// When its exit code says that another try makes sense.
    ExitCode,
    /// Whatever its exit code says.
    OnFailure,
}

/// How patient a launcher is.
#[derive(Clone, Debug)]
pub struct Rules {
    /// By role, in the order of [`Role::ALL`].
    pub restart: [Restart; 4],
    /// How often one task is started again within [`Rules::restart_window`].
    pub max_restarts: u32,
    /// A restart that is longer ago than this counts no more.
    pub restart_window: Duration,
    /// Before the first restart of a task; doubled for each one within the window, up to 30 s.
    pub pause: Duration,
    /// How long workers may go on after the chief's success.
    pub worker_grace: Duration,
    /// How long the evaluator may, which has the last checkpoint to evaluate and to export.
    pub evaluator_grace: Duration,
    /// How long parameter servers may take to go by themselves when nobody trains any more; `None`: as long as they want,
    /// because trainers on other machines may still need them.
    pub server_grace: Option<Duration>,
    /// Between being told to go and being killed, after Ctrl-C and at the end of a job that succeeded.
    pub kill_after: Duration,
    /// The same after SIGTERM and when another task failed: time for a checkpoint.
    pub save_time: Duration,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            restart: [Restart::ExitCode; 4],
            max_restarts: 3,
            restart_window: Duration::from_secs(600),
            pause: Duration::from_millis(500),
            worker_grace: Duration::from_secs(10),
            evaluator_grace: Duration::from_secs(120),
            server_grace: Some(Duration::from_secs(3)),
            kill_after: Duration::from_millis(2500),
            save_time: Duration::from_secs(25),
        }
    }
}

impl Rules {
    fn restart_of(&self, role: Role) -> Restart {
        Role::ALL.iter().position(|&one| one == role).map_or(Restart::Never, |at| self.restart[at])
    }
}

/// What the launcher is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Do {
    /// Start the task; the number counts its lives from 1.
    Start(TaskId, u32),
    /// Ask it to go, as Ctrl-C does.
    Interrupt(TaskId),
    /// Ask it to go, as SIGTERM does.
    Tell(TaskId),
    /// End it.
    Kill(TaskId),
}

/// Why a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The chief succeeded.
    Success,
    /// This task's failure, the first that mattered.
    Failed(TaskId, Exit),
    /// Somebody asked: Ctrl-C (`true`) or SIGTERM.
    Stopped(bool),
}

impl Ending {
    /// The same in one word, as files have it.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Success => Outcome::Succeeded,
            Self::Failed(..) => Outcome::Failed,
            Self::Stopped(_) => Outcome::Stopped,
        }
    }
}

/// How one life of a task ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The end of its process.
    pub exit: Exit,
    /// Whether it failed only because the chief told it that the job failed.
    pub relayed: bool,
}

impl From<Exit> for End {
    fn from(exit: Exit) -> Self {
        Self { exit, relayed: false }
    }
}

/// What becomes of a task whose process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It is started again after this pause.
    Restart(Duration),
    /// It failed too often; the job goes on without it.
    GiveUp,
    /// Its part is over.
    Over,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Waiting(Instant),
    Running,
    Ended,
}

#[derive(Debug)]
struct Task {
    id: TaskId,
    state: State,
    lives: u32,
    /// When it was started again, within the window.
    restarts: Vec<Instant>,
    /// Since when the operating system refuses to start it, and how often it did.
    refused: Option<(Instant, u32)>,
    joined: bool,
    succeeded: bool,
    told: Option<Instant>,
    killed: bool,
}

impl Task {
    fn trains(&self) -> bool {
        matches!(self.id.role, Role::Chief | Role::Worker)
    }
}

/// The job as its launcher sees it.
#[derive(Debug)]
pub struct Supervision {
    rules: Rules,
    tasks: Vec<Task>,
    /// Whose success counts; `None` where the chief is elsewhere: then all trainers here.
    chief: Option<TaskId>,
    /// Whether the job can go on without a worker: parameter servers hold the model.
    spares_workers: bool,
    ending: Option<(Ending, Instant)>,
    /// Whether the task that [`Supervision::ending`] names only passed on a failure.
    relayed: bool,
    last_end: Instant,
}

impl Supervision {
    /// Tasks that are to be started at once. `chief` is the one whose success ends the job, if it is among them;
    /// `spares_workers`: whether the job can go on without a worker.
    #[must_use]
    pub fn new(now: Instant, tasks: &[TaskId], chief: Option<TaskId>, spares_workers: bool, rules: Rules) -> Self {
        let task = |&id| Task {
            id,
            state: State::Waiting(now),
            lives: 0,
            restarts: Vec::new(),
            refused: None,
            joined: false,
            succeeded: false,
            told: None,
            killed: false,
        };
        let chief = chief.filter(|chief| tasks.contains(chief));
        let tasks = tasks.iter().map(task).collect();
        Self { rules, tasks, chief, spares_workers, ending: None, relayed: false, last_end: now }
    }

    /// Takes note that a task took part in the job.
    pub fn joined(&mut self, id: TaskId) {
        self.tasks.iter_mut().filter(|task| task.id == id).for_each(|task| task.joined = true);
    }

    /// Whether any task of this job says that it takes part.
    #[must_use]
    pub fn anybody_joined(&self) -> bool {
        self.tasks.iter().any(|task| task.joined)
    }

    /// Whether tasks of this job say that they take part, and this one never did.
    #[must_use]
    pub fn stayed_away(&self, id: TaskId) -> bool {
        self.anybody_joined() && !self.tasks.iter().any(|task| task.id == id && task.joined)
    }

    /// Takes note of a task's end; says what becomes of the task.
    pub fn ended(&mut self, now: Instant, id: TaskId, end: &End) -> Next {
        self.last_end = now;
        let exit = &end.exit;
        let closing = self.ending.is_some();
        let pause = if closing { None } else { self.restart(now, id, exit) };
        let gives_up = !closing && pause.is_none() && self.can_do_without(id, exit);
        let Some(task) = self.tasks.iter_mut().find(|task| task.id == id) else { return Next::Over };
        task.state = pause.map_or(State::Ended, |pause| State::Waiting(now + pause));
        task.succeeded = exit.success();
        if let Some(pause) = pause {
            if self.chief == Some(id) {
                self.call_workers_back(now + pause);
            }
            return Next::Restart(pause);
        }
        if gives_up {
            return Next::GiveUp;
        }
        if closing {
            self.find_the_origin(id, end);
        } else if !exit.success() && id.role != Role::Evaluator {
            self.ending = Some((Ending::Failed(id, exit.clone()), now));
            self.relayed = end.relayed;
        } else if self.job_is_done(id) {
            self.ending = Some((Ending::Success, now));
        }
        Next::Over
    }

    /// A job whose chief is started again needs every worker to form, also those that had done their part: what they did may
    /// be lost with the checkpoint that the chief failed to save.
    fn call_workers_back(&mut self, at: Instant) {
        let done = |task: &&mut Task| task.id.role == Role::Worker && task.state == State::Ended && task.succeeded;
        for task in self.tasks.iter_mut().filter(done) {
            (task.state, task.succeeded) = (State::Waiting(at), false);
        }
    }

    /// A failure of a task's own replaces one that was only passed on.
    fn find_the_origin(&mut self, id: TaskId, end: &End) {
        let obeyed = self.was_told(id) && matches!(end.exit.code(), 130 | 137 | 143);
        let own = !end.relayed && !end.exit.success() && !obeyed && id.role != Role::Evaluator;
        if let (true, true, Some((Ending::Failed(root, exit), _))) = (self.relayed, own, &mut self.ending) {
            (*root, *exit) = (id, end.exit.clone());
            self.relayed = false;
        }
    }

    fn restart(&mut self, now: Instant, id: TaskId, exit: &Exit) -> Option<Duration> {
        let again = match (self.rules.restart_of(id.role), exit.class()) {
            (_, Class::Done) => false,
            // What could not be started has not failed.
            _ if matches!(exit, Exit::NoResources(_)) => true,
            (Restart::Never, _) => false,
            (Restart::OnFailure, _) => true,
            (Restart::ExitCode, class) => class == Class::Retryable,
        };
        let (window, most, pause) = (self.rules.restart_window, self.rules.max_restarts, self.rules.pause);
        let task = self.tasks.iter_mut().find(|task| task.id == id)?;
        if !again {
            return None;
        }
        let before = if matches!(exit, Exit::NoResources(_)) {
            let (since, times) = task.refused.unwrap_or((now, 0));
            task.refused = Some((since, times + 1));
            (now < since + window).then_some(times)?
        } else {
            task.refused = None;
            task.restarts.retain(|&at| now < at + window);
            let before = u32::try_from(task.restarts.len()).unwrap_or(u32::MAX);
            (before < most).then_some(())?;
            task.restarts.push(now);
            before
        };
        Some(pause.saturating_mul(1 << before.min(16)).min(Duration::from_secs(30)))
    }

    /// Whether the job goes on without a task that failed, and that another try might have cured.
    fn can_do_without(&self, id: TaskId, exit: &Exit) -> bool {
        let other = |task: &Task| task.id != id && task.trains() && (task.state != State::Ended || task.succeeded);
        self.spares_workers
            && id.role == Role::Worker
            && self.chief != Some(id)
            && exit.class() == Class::Retryable
            // A job of ours does not form without it.
            && !self.stayed_away(id)
            && self.tasks.iter().any(other)
    }

    /// Whether the success of `id` is the job's.
    fn job_is_done(&self, id: TaskId) -> bool {
        match self.chief {
            Some(chief) => id == chief,
            None => {
                let mut trainers = self.tasks.iter().filter(|task| task.trains()).peekable();
                match trainers.peek() {
                    Some(_) => trainers.all(|task| task.state == State::Ended),
                    None => self.tasks.iter().all(|task| task.state == State::Ended),
                }
            }
        }
    }

    /// Somebody asked for the end. The second time, everything is ended at once.
    pub fn stop(&mut self, now: Instant, ctrl_c: bool) {
        match &mut self.ending {
            Some((Ending::Stopped(_), _)) => {
                (self.rules.kill_after, self.rules.save_time) = (Duration::ZERO, Duration::ZERO);
            }
            other => *other = Some((Ending::Stopped(ctrl_c), now)),
        }
    }

    /// What is to be done now.
    pub fn next(&mut self, now: Instant) -> Vec<Do> {
        match self.ending.clone() {
            None => self.start_those_that_are_due(now),
            Some((ending, since)) => self.close(now, &ending, since),
        }
    }

    fn start_those_that_are_due(&mut self, now: Instant) -> Vec<Do> {
        let due = self.tasks.iter_mut().filter(|task| matches!(task.state, State::Waiting(at) if at <= now));
        due.map(|task| {
            task.state = State::Running;
            task.lives += 1;
            Do::Start(task.id, task.lives)
        })
        .collect()
    }

    fn close(&mut self, now: Instant, ending: &Ending, since: Instant) -> Vec<Do> {
        for task in self.tasks.iter_mut().filter(|task| matches!(task.state, State::Waiting(_))) {
            task.state = State::Ended;
        }
        let others = self.tasks.iter().any(|task| task.state == State::Running && task.id.role != Role::Ps);
        let (rules, last_end) = (self.rules.clone(), self.last_end);
        let tell_at = |role| match (ending, role) {
            (Ending::Failed(..) | Ending::Stopped(_), _) => Some(since),
            (Ending::Success, Role::Chief | Role::Worker) => Some(since + rules.worker_grace),
            (Ending::Success, Role::Evaluator) => Some(since + rules.evaluator_grace),
            (Ending::Success, Role::Ps) if others => None,
            (Ending::Success, Role::Ps) => rules.server_grace.map(|grace| last_end.max(since) + grace),
        };
        let patience = match ending {
            Ending::Success | Ending::Stopped(true) => rules.kill_after,
            Ending::Failed(..) | Ending::Stopped(false) => rules.save_time,
        };
        let mut orders = Vec::new();
        for task in self.tasks.iter_mut().filter(|task| task.state == State::Running) {
            if task.told.is_none() && tell_at(task.id.role).is_some_and(|at| at <= now) {
                task.told = Some(now);
                let ctrl_c = *ending == Ending::Stopped(true);
                orders.push(if ctrl_c { Do::Interrupt(task.id) } else { Do::Tell(task.id) });
            }
            if !task.killed && task.told.is_some_and(|at| at + patience <= now) {
                task.killed = true;
                orders.push(Do::Kill(task.id));
            }
        }
        orders
    }

    /// Why the job ends or has ended.
    #[must_use]
    pub fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref().map(|(ending, _)| ending)
    }

    /// Whether nothing runs and nothing will.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.ending.is_some() && self.tasks.iter().all(|task| task.state != State::Running)
    }

    /// Whether a task was asked to go or ended by the launcher.
    #[must_use]
    pub fn was_told(&self, id: TaskId) -> bool {
        self.tasks.iter().any(|task| task.id == id && task.told.is_some())
    }
}

#[cfg(test)]
#[path = "supervise_tests.rs"]
mod tests;
