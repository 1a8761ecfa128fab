//! A step that the queue does not take.

/// Why a step was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The queue is full: try again when a step has finished.
    Full,
    /// The work alone exceeds the queue's bytes: it will never fit.
    TooLarge,
    /// A step failed: see [`Scheduler::raise`](super::Scheduler::raise), then schedule again.
    Failing,
    /// The job has ended.
    Ended,
}

/// A step that was not taken, and its work back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused<W> {
    /// What was to be scheduled.
    pub work: W,
    /// Why it was not.
    pub why: Why,
}
