//! `events.jsonl`: what happened to a job, one object per line.

use crate::format::as_optional_text;
use crate::now_ms;
use phalanx_base::TaskId;
use serde::{Deserialize, Serialize};

/// Something that happened to a job or to one of its tasks.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Event {
    /// When, in milliseconds since 1970.
    #[serde(rename = "at", default)]
    pub at_ms: u64,
    /// What happened.
    pub kind: EventKind,
    /// A description for people. No code depends on it.
    #[serde(default)]
    pub text: String,
    /// The task; `None` for the job.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "as_optional_text")]
    pub task: Option<TaskId>,
    /// How often the task has been started, from 1; 0 for the job.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempt: u32,
    /// The process that started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The exit code of the process that ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<i32>,
    /// How the job ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// The global step of a checkpoint or an evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<i64>,
    /// The version of the lines that follow; only with [`EventKind::Launched`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format_version: Option<u32>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The kinds of [`Event`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// A launcher began a job.
    Launched,
    /// A task's process started.
    Started,
    /// A task's process ended.
    Exited,
    /// A task will be started again.
    Restarting,
    /// The launcher asked a task to stop.
    #[serde(rename = "told")]
    StopRequested,
    /// The launcher killed a task that did not stop.
    Killed,
    /// A task failed too often; the job continues without it.
    GivenUp,
    /// The job ended.
    Finished,
    /// A checkpoint was found. Derived by [`RunTailer`](crate::RunTailer), never written.
    Checkpoint,
    /// An evaluation was found. Derived by [`RunTailer`](crate::RunTailer), never written.
    Evaluation,
    /// A kind that this build does not know.
    #[serde(other)]
    Unknown,
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The chief succeeded.
    Succeeded,
    /// A task failed.
    Failed,
    /// A user or a scheduler stopped the job.
    Stopped,
    /// An outcome that this build does not know.
    #[serde(other)]
    Unknown,
}

impl Event {
    /// An event that happens now.
    #[must_use]
    pub fn now(kind: EventKind, task: Option<TaskId>, attempt: u32, text: impl Into<String>) -> Self {
        let format_version = (kind == EventKind::Launched).then_some(crate::FORMAT_VERSION);
        let (pid, exit, outcome, step) = (None, None, None, None);
        Self { at_ms: now_ms(), kind, text: text.into(), task, attempt, pid, exit, outcome, step, format_version }
    }

    /// The event as a line of `events.jsonl`, without the line feed.
    #[must_use]
    pub fn to_line(&self) -> String {
        // Plain fields always serialize.
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_a_line_are_those_of_the_format() {
        let event = Event::now(EventKind::StopRequested, Some("ps/1".parse().unwrap()), 2, "why");
        let event = Event { at_ms: 7, exit: Some(3), ..event };
        let line = r#"{"at":7,"kind":"told","text":"why","task":"ps/1","attempt":2,"exit":3}"#;
        assert_eq!(event.to_line(), line);
        assert_eq!(serde_json::from_str::<Event>(line).unwrap(), event);
        let end = Event { at_ms: 8, outcome: Some(Outcome::Stopped), ..Event::now(EventKind::Finished, None, 0, "x") };
        assert_eq!(end.to_line(), r#"{"at":8,"kind":"finished","text":"x","outcome":"stopped"}"#);
        let newer: Event = serde_json::from_str(r#"{"kind":"of-tomorrow","outcome":"new","more":1}"#).unwrap();
        assert_eq!((newer.kind, newer.outcome), (EventKind::Unknown, Some(Outcome::Unknown)));
    }
}
