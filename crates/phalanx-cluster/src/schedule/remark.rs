//! What the scheduler answers to a message that changes nothing.

use super::{Life, Ticket};

/// Why a message was ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remark {
    /// The life never joined.
    NeverJoined(Life),
    /// The life was lost and fenced, or has left: it should end.
    Ended(Life),
    /// The life is being fenced and gets no more steps.
    Lost(Life),
    /// The ticket was never given to that life.
    NotYours(Life, Ticket),
    /// The sequence number cannot be that step's: the worker broke a rule of the protocol.
    WrongSequence(Life, Ticket, Option<u64>),
    /// The servers hold more updates of a lost life than it had steps: the worker broke a rule of the protocol.
    Unexplained(Life, u64),
}

impl std::fmt::Display for Remark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NeverJoined(life) => write!(f, "{life} never joined"),
            Self::Ended(life) => write!(f, "{life} was declared lost or has left; start the task again"),
            Self::Lost(life) => write!(f, "{life} was declared lost and is being shut out"),
            Self::NotYours(life, ticket) => write!(f, "{ticket} was never given to {life}"),
            Self::WrongSequence(life, ticket, Some(sequence)) => {
                write!(f, "{life} says it pushed {ticket} as its update {sequence}, which is another step's number")
            }
            Self::WrongSequence(life, ticket, None) => {
                write!(f, "{life} says it pushed nothing for {ticket}, which runs on behalf of another")
            }
            Self::Unexplained(life, sequence) => {
                write!(f, "servers hold update {sequence} of {life}, which had no such step")
            }
        }
    }
}

/// What became of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Receipt {
    /// It was news.
    Taken,
    /// It was heard before, or is about a life that is over; nothing changed.
    Repeated,
    /// It makes no sense; nothing changed.
    Ignored(Remark),
}
