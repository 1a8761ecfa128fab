//! What is known about a run.

use crate::{CheckpointFile, Curve, DataStatistics, Event, JobFile, JobUsage, Outcome, Placement, Point, TaskStatus};
use phalanx_base::{Error, Role, TaskId};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};

/// Bounds for the log lines in memory; older lines are in the files.
const MAX_LINES: usize = 200_000;
const MAX_LINE_BYTES: usize = 48 << 20;
const MAX_EVENTS: usize = 5_000;

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum JobState {
    /// No launcher wrote into the directory, which may still have curves and checkpoints.
    #[default]
    Unknown,
    /// Its launcher runs.
    Running,
    /// The chief succeeded.
    Succeeded,
    /// A task failed.
    Failed,
    /// A user or a scheduler stopped it.
    Stopped,
    /// Its launcher disappeared without recording an end.
    Abandoned,
    /// It ended, but the events do not record how.
    Ended,
}

impl JobState {
    /// The name of the state.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
            Self::Abandoned => "abandoned",
            Self::Ended => "ended",
        }
    }
}

impl From<Option<Outcome>> for JobState {
    fn from(outcome: Option<Outcome>) -> Self {
        match outcome {
            Some(Outcome::Succeeded) => Self::Succeeded,
            Some(Outcome::Failed) => Self::Failed,
            Some(Outcome::Stopped) => Self::Stopped,
            Some(Outcome::Unknown) | None => Self::Ended,
        }
    }
}

/// The state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TaskState {
    /// It has not been started yet.
    #[default]
    Waiting,
    /// Its process runs.
    Running,
    /// Its process ended and will be started again.
    Restarting,
    /// It succeeded.
    Done,
    /// It failed.
    Failed,
    /// The launcher stopped it.
    Stopped,
}

impl TaskState {
    /// The name of the state.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Restarting => "restarting",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }
}

/// What is known about one task.
#[derive(Clone, Debug)]
pub struct TaskView {
    /// The task.
    pub task: TaskId,
    /// The machine on which it runs; empty if the job runs on one machine.
    pub node: String,
    /// Where it listens; empty for an evaluator.
    pub address: String,
    /// Its state.
    pub state: TaskState,
    /// Its process.
    pub pid: Option<u32>,
    /// How often it has been started.
    pub attempt: u32,
    /// When its process started or ended, in milliseconds since 1970.
    pub since_ms: u64,
    /// The exit code of the last process that ended.
    pub exit: Option<i32>,
    /// A description of that end, if it was not a success.
    pub last_error: String,
    /// CPUs in use.
    pub cpu: Option<f64>,
    /// Bytes in memory.
    pub memory: Option<u64>,
    /// What it last reported about itself.
    pub status: Option<TaskStatus>,
    /// Whether that report is old, or its process has ended.
    pub stale: bool,
    pub(crate) stop_requested: bool,
}

impl TaskView {
    pub(crate) fn new(task: TaskId) -> Self {
        Self {
            task,
            node: String::new(),
            address: String::new(),
            state: TaskState::default(),
            pid: None,
            attempt: 0,
            since_ms: 0,
            exit: None,
            last_error: String::new(),
            cpu: None,
            memory: None,
            status: None,
            stale: false,
            stop_requested: false,
        }
    }

    /// Whether the task trains: the chief and the workers do.
    #[must_use]
    pub fn is_trainer(&self) -> bool {
        matches!(self.task.role, Role::Chief | Role::Worker)
    }

    fn to_json(&self) -> Value {
        json!({
            "task": self.task.to_string(),
            "node": self.node,
            "address": self.address,
            "state": self.state.as_str(),
            "pid": self.pid,
            "attempt": self.attempt,
            "since": self.since_ms,
            "exit": self.exit,
            "last_error": self.last_error,
            "cpu": self.cpu,
            "memory": self.memory,
            "status": self.status.as_ref().map(TaskStatus::to_json),
            "stale": self.stale,
        })
    }
}

/// One line of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// The index of its task in [`RunState::tasks`].
    pub task: usize,
    /// The text, which may look like markup.
    pub text: String,
}

/// Everything that is known about a run.
#[derive(Debug, Default)]
pub struct RunState {
    /// What was launched; `None` if no launcher wrote into the directory.
    pub job: Option<JobFile>,
    /// The state of the job.
    pub state: JobState,
    /// When it ended, in milliseconds since 1970.
    pub ended_ms: Option<u64>,
    /// Its tasks in the order of the cluster.
    pub tasks: Vec<TaskView>,
    /// The curves of its event files.
    pub curves: Vec<Curve>,
    /// Its checkpoints by ascending step.
    pub checkpoints: Vec<CheckpointFile>,
    /// The statistics of its training data, which `phalanx train` writes.
    pub statistics: Option<DataStatistics>,
    /// What its processes used, once it is over.
    pub usage: Option<JobUsage>,
    /// Why some of its files cannot be read: a newer version of Phalanx wrote them.
    pub problem: Option<Error>,
    /// The variables that each task has created.
    pub(crate) placements: BTreeMap<TaskId, Placement>,
    events: VecDeque<Event>,
    first_event: u64,
    lines: VecDeque<LogLine>,
    line_bytes: usize,
    first_line: u64,
}

impl RunState {
    /// The index of a task in the list. A task that `job.json` does not contain is added.
    pub(crate) fn index(&mut self, task: TaskId) -> usize {
        self.tasks.iter().position(|view| view.task == task).unwrap_or_else(|| {
            self.tasks.push(TaskView::new(task));
            self.tasks.len() - 1
        })
    }

    pub(crate) fn add_event(&mut self, event: Event) {
        if self.events.len() >= MAX_EVENTS {
            self.events.pop_front();
            self.first_event += 1;
        }
        self.events.push_back(event);
    }

    pub(crate) fn add_line(&mut self, line: LogLine) {
        self.line_bytes += line.text.len() + 64;
        self.lines.push_back(line);
        while self.lines.len() > MAX_LINES || self.line_bytes > MAX_LINE_BYTES {
            let Some(oldest) = self.lines.pop_front() else { break };
            self.line_bytes -= oldest.text.len() + 64;
            self.first_line += 1;
        }
    }

    /// Returns the events from number `from` on, oldest first, and the number of the first one.
    pub fn events(&self, from: u64) -> (u64, impl Iterator<Item = &Event>) {
        let from = from.max(self.first_event);
        let skip = usize::try_from(from - self.first_event).unwrap_or(usize::MAX);
        (from, self.events.iter().skip(skip))
    }

    /// Returns at most `count` log lines from number `from` on, and the number of the first one.
    pub fn lines(&self, from: u64, count: usize) -> (u64, impl Iterator<Item = &LogLine>) {
        let from = from.max(self.first_line);
        let skip = usize::try_from(from - self.first_line).unwrap_or(usize::MAX);
        (from, self.lines.iter().skip(skip).take(count))
    }

    /// The newest point of a curve.
    #[must_use]
    pub fn last(&self, run: &str, tag: &str) -> Option<Point> {
        let curve = self.curves.iter().find(|curve| curve.run == run && curve.tag == tag)?;
        curve.points.last().copied()
    }

    /// What the tasks reported about themselves.
    pub fn statuses(&self) -> impl Iterator<Item = &TaskStatus> {
        self.tasks.iter().filter_map(|task| task.status.as_ref())
    }

    /// The sum of a value over the tasks that report it.
    pub fn sum(&self, value: impl Fn(&TaskStatus) -> Option<f64>) -> Option<f64> {
        self.statuses().filter_map(value).reduce(|a, b| a + b)
    }

    /// The newest global step in statuses, curves and checkpoints.
    #[must_use]
    pub fn step(&self) -> Option<u64> {
        let reported = self.statuses().filter_map(|status| status.global_step).max();
        let drawn = self.curves.iter().filter_map(|curve| curve.points.last()).map(|point| point.step.max(0) as u64);
        reported.max(drawn.max()).max(self.checkpoints.last().map(|saved| saved.step))
    }

    /// Steps per second now, as the tasks report them, or else the mean of what the event files have: the last interval of
    /// a run that is over may be too short to tell anything.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        let rates = self.statuses().filter_map(|status| status.steps_per_s);
        let in_sync = self.statuses().any(|status| status.in_sync == Some(true));
        rates.reduce(|a, b| if in_sync { a.max(b) } else { a + b }).or_else(|| self.mean_rate())
    }

    fn mean_rate(&self) -> Option<f64> {
        let curve = self.curves.iter().find(|curve| curve.run.is_empty() && curve.tag == "global_step/sec")?;
        let (first, last) = (curve.points.first()?, curve.points.last()?);
        let seconds = last.wall_time - first.wall_time;
        Some(if seconds >= 1.0 { (last.step - first.step) as f64 / seconds } else { last.value })
    }

    /// The newest training loss.
    #[must_use]
    pub fn loss(&self) -> Option<f64> {
        let reported = self.statuses().find_map(|status| status.loss);
        reported.or_else(|| ["loss", "epoch_loss"].iter().find_map(|tag| self.last("", tag)).map(|point| point.value))
    }

    /// Whether the launcher has asked a task to stop: the job is ending.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.state == JobState::Running && self.tasks.iter().any(|task| task.stop_requested)
    }

    /// Everything but events, curves, lines and variables, as one object.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut object = json!({
            "job": self.job,
            "state": self.state.as_str(),
            "ended": self.ended_ms,
            "step": self.step(),
            "steps_per_s": self.rate(),
            "loss": self.loss(),
            "tasks": self.tasks.iter().map(TaskView::to_json).collect::<Vec<_>>(),
            "checkpoints": self.checkpoints,
            "statistics": self.statistics.as_ref().map(|found| found.at_ms),
            "stopping": self.is_stopping(),
            "can_be_stopped": self.can_be_stopped(),
            "placed": self.placements.values().map(|placement| placement.variables.len()).sum::<usize>(),
            "usage": self.usage,
        });
        if let Some(problem) = &self.problem {
            object["problem"] = json!(problem.to_string());
        }
        object
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_of_a_run_that_is_over_is_its_mean() {
        let points = |all: &[(i64, f64, f64)]| {
            let point = |&(step, wall_time, value): &(i64, f64, f64)| Point { step, wall_time, value };
            let points = all.iter().map(point).collect();
            let tag = "global_step/sec".to_owned();
            RunState { curves: vec![Curve { run: String::new(), tag, points, version: 0 }], ..RunState::default() }
        };
        let over = points(&[(100, 10.0, 90.0), (1100, 20.0, 110.0), (1110, 20.01, 1000.0)]);
        assert!((over.rate().unwrap() - 100.9).abs() < 0.1, "{:?}", over.rate());
        assert_eq!(points(&[(100, 10.0, 90.0)]).rate(), Some(90.0));
        assert_eq!(RunState::default().rate(), None);
    }
}
