//! The scheduler's answers to messages that change nothing.

use super::{AttemptId, TaskIncarnation};

/// Why a worker's message was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The incarnation never joined.
    NeverJoined(TaskIncarnation),
    /// The incarnation was lost and fenced, or has left. It should end.
    Ended(TaskIncarnation),
    /// The incarnation is being fenced and gets no more steps.
    Lost(TaskIncarnation),
    /// The attempt was never assigned to that incarnation.
    NotYours(TaskIncarnation, AttemptId),
    /// The sequence number cannot belong to that step: the worker violated the protocol.
    WrongSequence(TaskIncarnation, AttemptId, Option<u64>),
    /// The servers have more updates of a lost incarnation than it had steps: the worker violated the protocol.
    Unexplained(TaskIncarnation, u64),
}

impl std::fmt::Display for Rejection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NeverJoined(worker_id) => write!(f, "{worker_id} never joined"),
            Self::Ended(worker_id) => write!(f, "{worker_id} was declared lost or has left; start the task again"),
            Self::Lost(worker_id) => write!(f, "{worker_id} was declared lost and is being fenced"),
            Self::NotYours(worker_id, attempt_id) => write!(f, "{attempt_id} was never assigned to {worker_id}"),
            Self::WrongSequence(worker_id, attempt_id, Some(sequence)) => {
                write!(
                    f,
                    "{worker_id} reports that it pushed {attempt_id} as its update {sequence}, which is another step's number"
                )
            }
            Self::WrongSequence(worker_id, attempt_id, None) => {
                write!(
                    f,
                    "{worker_id} reports that it pushed nothing for {attempt_id}, which runs on behalf of another"
                )
            }
            Self::Unexplained(worker_id, sequence) => {
                write!(f, "servers hold update {sequence} of {worker_id}, which had no such step")
            }
        }
    }
}

/// The result of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Receipt {
    /// It was new.
    Taken,
    /// It is a repeat, or about an incarnation that is over. Nothing changed.
    Repeated,
    /// It is invalid. Nothing changed.
    Ignored(Rejection),
}
