//! What to do when tasks exit: pure decisions, with the time passed in.
//!
//! The job succeeds when the chief does. Workers and the evaluator may then finish their work, and parameter servers are stopped
//! last; a task that does not stop is killed. After a failure that a retry may cure, only that task is restarted, a few times
//! within [`Rules::restart_window`]. A worker that fails more often is given up if the job can continue without it; any other
//! failure ends the job. The root cause is the first failure that is the task's own: a task that only relays what the chief
//! reported is named only if no other task failed. A failed evaluator is reported and stops no other task.

use crate::{Exit, ExitClass};
use phalanx_base::{Role, TaskId};
use phalanx_run::Outcome;
use std::time::{Duration, Instant};

/// When a failed task is restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// Never.
    Never,
    /// If its exit code means that a retry may succeed.
    ExitCode,
    /// After every failure.
    OnFailure,
}

/// The rules of supervision: restarts and grace periods.
#[derive(Clone, Debug)]
pub struct Rules {
    /// When tasks are restarted, by role in the order of [`Role::ALL`].
    pub restart: [Restart; 4],
    /// How often one task is restarted within [`Rules::restart_window`].
    pub max_restarts: u32,
    /// Restarts longer ago than this do not count.
    pub restart_window: Duration,
    /// The pause before the first restart of a task. It doubles with each restart within the window, up to 30 s.
    pub pause: Duration,
    /// How long workers may continue after the chief has succeeded.
    pub worker_grace: Duration,
    /// How long the evaluator may continue: it still has to evaluate and export the last checkpoint.
    pub evaluator_grace: Duration,
    /// How long parameter servers may take to exit once no trainer here is left. `None` is no limit, because trainers on other
    /// machines may still need them.
    pub server_grace: Option<Duration>,
    /// The time between the request to stop and SIGKILL, after Ctrl-C and at the end of a job that succeeded.
    pub kill_after: Duration,
    /// The same after SIGTERM and after the failure of another task: time for a checkpoint.
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

/// An action for the launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Start the task; the number counts its attempts from 1.
    Start(TaskId, u32),
    /// Ask the task to stop with SIGINT.
    Interrupt(TaskId),
    /// Ask the task to stop with SIGTERM.
    Terminate(TaskId),
    /// Kill the task.
    Kill(TaskId),
}

/// Why a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The chief succeeded.
    Success,
    /// This task failed first.
    Failed(TaskId, Exit),
    /// A signal stopped it: Ctrl-C (`true`) or SIGTERM.
    Stopped(bool),
}

impl Ending {
    /// The outcome that is recorded in the events.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Success => Outcome::Succeeded,
            Self::Failed(..) => Outcome::Failed,
            Self::Stopped(_) => Outcome::Stopped,
        }
    }
}

/// How one attempt of a task ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AttemptEnd {
    /// The exit of its process.
    pub(crate) exit: Exit,
    /// Whether it failed only because the chief reported that the job failed.
    pub(crate) relayed: bool,
}

impl From<Exit> for AttemptEnd {
    fn from(exit: Exit) -> Self {
        Self { exit, relayed: false }
    }
}

/// What follows from the exit of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It is restarted after this pause.
    Restart(Duration),
    /// It failed too often; the job continues without it.
    GiveUp,
    /// It is done.
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
    attempts: u32,
    /// When it was restarted, within the window.
    restarts: Vec<Instant>,
    /// Since when, and how often, the operating system has refused to start it.
    refused: Option<(Instant, u32)>,
    joined: bool,
    succeeded: bool,
    stop_requested: Option<Instant>,
    killed: bool,
}

impl Task {
    fn trains(&self) -> bool {
        matches!(self.id.role, Role::Chief | Role::Worker)
    }
}

/// The state of a job in its launcher.
#[derive(Debug)]
pub(crate) struct Supervision {
    rules: Rules,
    tasks: Vec<Task>,
    /// The task whose success is the job's; `None` if it runs elsewhere: then all trainers here must succeed.
    chief: Option<TaskId>,
    /// Whether the job can continue without a worker, because parameter servers hold the model.
    spares_workers: bool,
    ending: Option<(Ending, Instant)>,
    /// Whether the task that [`Supervision::ending`] names only relayed a failure.
    relayed: bool,
    last_end: Instant,
}

impl Supervision {
    /// A job whose tasks all start now. `chief` is the task whose success ends the job, if it is among them; `spares_workers` is
    /// whether the job can continue without a worker.
    pub(crate) fn new(
        now: Instant,
        tasks: &[TaskId],
        chief: Option<TaskId>,
        spares_workers: bool,
        rules: Rules,
    ) -> Self {
        let task = |&id| Task {
            id,
            state: State::Waiting(now),
            attempts: 0,
            restarts: Vec::new(),
            refused: None,
            joined: false,
            succeeded: false,
            stop_requested: None,
            killed: false,
        };
        let chief = chief.filter(|chief| tasks.contains(chief));
        let tasks = tasks.iter().map(task).collect();
        Self { rules, tasks, chief, spares_workers, ending: None, relayed: false, last_end: now }
    }

    /// Records that a task took part in the job.
    pub(crate) fn joined(&mut self, id: TaskId) {
        self.tasks.iter_mut().filter(|task| task.id == id).for_each(|task| task.joined = true);
    }

    /// Whether any task took part in the job.
    pub(crate) fn any_task_joined(&self) -> bool {
        self.tasks.iter().any(|task| task.joined)
    }

    /// Whether other tasks took part in the job and this one did not.
    pub(crate) fn never_joined(&self, id: TaskId) -> bool {
        self.any_task_joined() && !self.tasks.iter().any(|task| task.id == id && task.joined)
    }

    /// Records the exit of a task and decides what follows.
    pub(crate) fn ended(&mut self, now: Instant, id: TaskId, end: &AttemptEnd) -> Next {
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
            self.find_root_cause(id, end);
        } else if !exit.success() && id.role != Role::Evaluator {
            self.ending = Some((Ending::Failed(id, exit.clone()), now));
            self.relayed = end.relayed;
        } else if self.job_is_done(id) {
            self.ending = Some((Ending::Success, now));
        }
        Next::Over
    }

    /// A job whose chief is restarted needs every worker to form, including those that were done: their work may be lost with
    /// the checkpoint that the chief failed to save.
    fn call_workers_back(&mut self, at: Instant) {
        let done = |task: &&mut Task| task.id.role == Role::Worker && task.state == State::Ended && task.succeeded;
        for task in self.tasks.iter_mut().filter(done) {
            (task.state, task.succeeded) = (State::Waiting(at), false);
        }
    }

    /// A task's own failure replaces one that was only relayed as the root cause.
    fn find_root_cause(&mut self, id: TaskId, end: &AttemptEnd) {
        let obeyed = self.stop_was_requested(id) && matches!(end.exit.code(), 130 | 137 | 143);
        let own = !end.relayed && !end.exit.success() && !obeyed && id.role != Role::Evaluator;
        if let (true, true, Some((Ending::Failed(root, exit), _))) = (self.relayed, own, &mut self.ending) {
            (*root, *exit) = (id, end.exit.clone());
            self.relayed = false;
        }
    }

    fn restart(&mut self, now: Instant, id: TaskId, exit: &Exit) -> Option<Duration> {
        let again = match (self.rules.restart_of(id.role), exit.class()) {
            (_, ExitClass::Done) => false,
            // A task that could not be started has not failed.
            _ if matches!(exit, Exit::NoResources(_)) => true,
            (Restart::Never, _) => false,
            (Restart::OnFailure, _) => true,
            (Restart::ExitCode, class) => class == ExitClass::Retryable,
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

    /// Whether the job continues without a task whose failure a retry might have cured.
    fn can_do_without(&self, id: TaskId, exit: &Exit) -> bool {
        let other = |task: &Task| task.id != id && task.trains() && (task.state != State::Ended || task.succeeded);
        self.spares_workers
            && id.role == Role::Worker
            && self.chief != Some(id)
            && exit.class() == ExitClass::Retryable
            // A Phalanx job does not form without it.
            && !self.never_joined(id)
            && self.tasks.iter().any(other)
    }

    /// Whether the success of `id` is the success of the job.
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

    /// Stops the job after a signal. The second call kills everything at once.
    pub(crate) fn stop(&mut self, now: Instant, ctrl_c: bool) {
        match &mut self.ending {
            Some((Ending::Stopped(_), _)) => {
                (self.rules.kill_after, self.rules.save_time) = (Duration::ZERO, Duration::ZERO);
            }
            other => *other = Some((Ending::Stopped(ctrl_c), now)),
        }
    }

    /// The actions that are due.
    pub(crate) fn next(&mut self, now: Instant) -> Vec<Action> {
        match self.ending.clone() {
            None => self.start_due_tasks(now),
            Some((ending, since)) => self.close(now, &ending, since),
        }
    }

    fn start_due_tasks(&mut self, now: Instant) -> Vec<Action> {
        let due = self.tasks.iter_mut().filter(|task| matches!(task.state, State::Waiting(at) if at <= now));
        due.map(|task| {
            task.state = State::Running;
            task.attempts += 1;
            Action::Start(task.id, task.attempts)
        })
        .collect()
    }

    fn close(&mut self, now: Instant, ending: &Ending, since: Instant) -> Vec<Action> {
        for task in self.tasks.iter_mut().filter(|task| matches!(task.state, State::Waiting(_))) {
            task.state = State::Ended;
        }
        let others = self.tasks.iter().any(|task| task.state == State::Running && task.id.role != Role::Ps);
        let (rules, last_end) = (self.rules.clone(), self.last_end);
        let stop_at = |role| match (ending, role) {
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
        let mut actions = Vec::new();
        for task in self.tasks.iter_mut().filter(|task| task.state == State::Running) {
            if task.stop_requested.is_none() && stop_at(task.id.role).is_some_and(|at| at <= now) {
                task.stop_requested = Some(now);
                let ctrl_c = *ending == Ending::Stopped(true);
                actions.push(if ctrl_c { Action::Interrupt(task.id) } else { Action::Terminate(task.id) });
            }
            if !task.killed && task.stop_requested.is_some_and(|at| at + patience <= now) {
                task.killed = true;
                actions.push(Action::Kill(task.id));
            }
        }
        actions
    }

    /// Why the job is ending or has ended.
    pub(crate) fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref().map(|(ending, _)| ending)
    }

    /// Whether no task runs and none will be started.
    pub(crate) fn is_over(&self) -> bool {
        self.ending.is_some() && self.tasks.iter().all(|task| task.state != State::Running)
    }

    /// Whether the launcher asked the task to stop.
    pub(crate) fn stop_was_requested(&self, id: TaskId) -> bool {
        self.tasks.iter().any(|task| task.id == id && task.stop_requested.is_some())
    }
}

#[cfg(test)]
#[path = "supervise_tests.rs"]
mod tests;
