//! What is known of a run.

use super::{CheckpointFile, Curve};
use crate::Outcome;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};

/// Lines kept in memory; older ones are in the files.
const MOST_LINES: usize = 200_000;
const MOST_LINE_BYTES: usize = 48 << 20;
/// Events kept.
const MOST_EVENTS: usize = 5_000;

/// How a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum JobState {
    /// No launcher wrote here: curves and checkpoints are all there is.
    #[default]
    Unknown,
    /// Its launcher lives.
    Running,
    /// The chief succeeded.
    Succeeded,
    /// A task failed.
    Failed,
    /// Somebody stopped it.
    Stopped,
    /// Its launcher has gone without a word.
    Abandoned,
    /// It ended, and its event file does not say how: an older launcher wrote it.
    Ended,
}

impl JobState {
    /// In one word.
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
            None => Self::Ended,
        }
    }
}

/// How a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TaskState {
    /// It was not started yet.
    #[default]
    Waiting,
    /// Its process runs.
    Running,
    /// Its process ended, and another will be started.
    Restarting,
    /// It succeeded.
    Done,
    /// It failed.
    Failed,
    /// The launcher asked it to stop, or ended it.
    Stopped,
}

impl TaskState {
    /// In one word.
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

/// One task.
#[derive(Clone, Debug, Default)]
pub struct TaskView {
    /// `worker/2`.
    pub task: String,
    /// The machine, where there are several.
    pub node: String,
    /// Where it listens; empty for an evaluator.
    pub address: String,
    /// How it is.
    pub state: TaskState,
    /// Its process.
    pub pid: Option<u32>,
    /// Which of its lives this is.
    pub attempt: u32,
    /// When this life began, in milliseconds since 1970.
    pub since_ms: u64,
    /// The exit code of the life before or of the last one.
    pub exit: Option<i64>,
    /// How it ended, in words.
    pub last_error: String,
    /// Processors in use.
    pub cpu: Option<f64>,
    /// Bytes in memory.
    pub memory: Option<u64>,
    /// Whether the launcher asked it to go.
    pub told: bool,
    /// What it says of itself.
    pub status: Value,
}

/// One line of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// Which task: its place in [`Board::tasks`].
    pub task: usize,
    /// The text, never to be taken for anything else.
    pub text: String,
}

/// All of it.
#[derive(Debug, Default)]
pub struct Board {
    /// What was launched.
    pub job: Value,
    /// How it is.
    pub state: JobState,
    /// When it ended, in milliseconds since 1970.
    pub ended_ms: Option<u64>,
    /// Its tasks in the order of the cluster.
    pub tasks: Vec<TaskView>,
    events: Vec<Value>,
    first_event: u64,
    /// Numbers over steps.
    pub curves: Vec<Curve>,
    /// What was saved.
    pub checkpoints: Vec<CheckpointFile>,
    lines: VecDeque<LogLine>,
    line_bytes: usize,
    first_line: u64,
}

impl Board {
    /// The place of a task in the list; a task that no `job.json` names is added.
    pub(super) fn index(&mut self, task: &str) -> usize {
        self.tasks.iter().position(|view| view.task == task).unwrap_or_else(|| {
            self.tasks.push(TaskView { task: task.to_owned(), ..TaskView::default() });
            self.tasks.len() - 1
        })
    }

    pub(super) fn add_event(&mut self, event: Value) {
        if self.events.len() >= MOST_EVENTS {
            self.events.drain(..MOST_EVENTS / 10);
            self.first_event += MOST_EVENTS as u64 / 10;
        }
        self.events.push(event);
    }

    pub(super) fn add_line(&mut self, line: LogLine) {
        self.line_bytes += line.text.len() + 64;
        self.lines.push_back(line);
        while self.lines.len() > MOST_LINES || self.line_bytes > MOST_LINE_BYTES {
            let Some(oldest) = self.lines.pop_front() else { break };
            self.line_bytes -= oldest.text.len() + 64;
            self.first_line += 1;
        }
    }

    /// What happened, from number `from` on, oldest first, and the number of the first of them.
    pub fn events(&self, from: u64) -> (u64, impl Iterator<Item = &Value>) {
        let from = from.max(self.first_event);
        let skip = usize::try_from(from - self.first_event).unwrap_or(usize::MAX);
        (from, self.events.iter().skip(skip.min(self.events.len())))
    }

    /// Log lines from number `from` on, at most `count`, and the number of the first of them.
    pub fn lines(&self, from: u64, count: usize) -> (u64, impl Iterator<Item = &LogLine>) {
        let from = from.max(self.first_line);
        let skip = usize::try_from(from - self.first_line).unwrap_or(usize::MAX);
        (from, self.lines.iter().skip(skip.min(self.lines.len())).take(count))
    }

    /// The newest value of a curve.
    #[must_use]
    pub fn last(&self, run: &str, tag: &str) -> Option<super::Point> {
        let curve = self.curves.iter().find(|curve| curve.run == run && curve.tag == tag)?;
        curve.points.last().copied()
    }

    /// The newest global step that anybody has mentioned.
    #[must_use]
    pub fn step(&self) -> Option<u64> {
        let told = self.tasks.iter().filter_map(|task| task.status["global_step"].as_u64()).max();
        let drawn =
            self.curves.iter().filter_map(|curve| curve.points.last()).map(|point| point.step.max(0) as u64).max();
        told.max(drawn).max(self.checkpoints.last().map(|saved| saved.step))
    }

    /// Steps per second: of the job's own word, or from its event files.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        let told: Vec<f64> = self.tasks.iter().filter_map(|task| task.status["steps_per_s"].as_f64()).collect();
        if told.is_empty() {
            self.last("", "global_step/sec").map(|point| point.value)
        } else {
            Some(told.iter().sum())
        }
    }

    /// The newest loss of training.
    #[must_use]
    pub fn loss(&self) -> Option<f64> {
        let told = self.tasks.iter().find_map(|task| task.status["loss"].as_f64());
        told.or_else(|| ["loss", "epoch_loss"].iter().find_map(|tag| self.last("", tag)).map(|point| point.value))
    }

    /// Everything but curves and lines, as one object.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let tasks: Vec<Value> = self.tasks.iter().map(TaskView::to_json).collect();
        let checkpoints: Vec<Value> = self
            .checkpoints
            .iter()
            .map(|one| json!({ "name": one.name, "step": one.step, "bytes": one.bytes, "shards": one.shards, "at": one.at_ms }))
            .collect();
        json!({
            "job": self.job,
            "state": self.state.as_str(),
            "ended": self.ended_ms,
            "step": self.step(),
            "steps_per_s": self.rate(),
            "loss": self.loss(),
            "tasks": tasks,
            "checkpoints": checkpoints,
        })
    }

    /// How many tasks of a role run, and how many there are.
    #[must_use]
    pub fn up(&self) -> BTreeMap<&str, (usize, usize)> {
        let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for view in &self.tasks {
            let count = counts.entry(view.task.split('/').next().unwrap_or("")).or_default();
            count.1 += 1;
            count.0 += usize::from(view.state == TaskState::Running);
        }
        counts
    }
}

impl TaskView {
    fn to_json(&self) -> Value {
        json!({
            "task": self.task,
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
            "status": self.status,
        })
    }
}
