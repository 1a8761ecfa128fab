//! Steps that the queue refuses.

/// Why a step was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    /// The queue is full: try again when a step has finished.
    Full,
    /// The step's work alone exceeds the queue's byte limit: it will never fit.
    TooLarge,
    /// A step failed: call [`Scheduler::raise`](super::Scheduler::raise), then schedule again.
    Failing,
    /// The job has ended.
    Ended,
}

/// A refused step, with its work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedStep<W> {
    /// The step's work.
    pub work: W,
    /// The reason.
    pub why: RefusalReason,
}
