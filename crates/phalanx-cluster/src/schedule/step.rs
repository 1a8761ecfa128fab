//! Steps: their ids, their assignments and their outcomes.

use super::TaskIncarnation;
use phalanx_base::{Error, UpdateId};

/// The id of a step: its number in scheduling order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StepId(pub u64);

impl std::fmt::Display for StepId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "step {}", self.0)
    }
}

/// The id of one run of a step by one incarnation, under which it is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AttemptId {
    /// The step.
    pub step: StepId,
    /// The number of the run among the incarnation's runs, from 1 without gaps.
    pub turn: u64,
}

impl std::fmt::Display for AttemptId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (turn {})", self.step, self.turn)
    }
}

/// Whether a step changes the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepEffect {
    /// It pushes gradients.
    Update,
    /// It pushes nothing, like an evaluation.
    Nothing,
}

/// A step, as it is assigned to a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment<W> {
    /// The id under which to report it.
    pub attempt_id: AttemptId,
    /// The work.
    pub work: W,
    /// Whether it pushes.
    pub effect: StepEffect,
    /// Push under this update id, on behalf of a lost incarnation, instead of the worker's own next one.
    pub on_behalf_of: Option<UpdateId>,
    /// The number of the run of this step, from 1.
    pub attempt: usize,
    /// The worker's step count, for the staleness bound.
    pub number: u64,
    /// The round that its gradients belong to, in synchronous training.
    pub round: Option<u64>,
    /// The number of closed rounds.
    pub closed: u64,
}

/// How far a step's update got, as far as the scheduler knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateReach {
    /// No server has it, or there was nothing to push.
    Nowhere,
    /// Some servers have it, and some may not: it is one of
    /// [`Scheduler::take_unfinished_updates`](super::Scheduler::take_unfinished_updates).
    Somewhere,
    /// Every server has it.
    Everywhere,
}

/// The outcome of a step.
#[derive(Clone, Debug)]
pub enum StepOutcome<R> {
    /// It ran, and every server has its update once. This is its result.
    Ok(R),
    /// It failed. Its update counts as far as it got: nowhere, unless a worker was lost while pushing it.
    Failed {
        /// The error.
        error: Error,
        /// How far its update had got.
        update: UpdateReach,
    },
    /// It was never handed out.
    Cancelled,
    /// The job ended while a worker had it.
    Unknown,
}

/// The state of a step.
#[derive(Clone, Debug)]
pub(super) enum StepState<R> {
    /// In the queue.
    Queued,
    /// With a worker.
    Out,
    /// Finished.
    Done(StepOutcome<R>),
}

/// The record of a step.
#[derive(Clone, Debug)]
pub(super) struct Step<W, R> {
    /// Kept while the step may have to run again.
    pub(super) work: Option<W>,
    pub(super) bytes: usize,
    pub(super) effect: StepEffect,
    pub(super) state: StepState<R>,
    /// The number of times it was handed out.
    pub(super) runs: usize,
    /// Why its runs ended without a result.
    pub(super) causes: Vec<String>,
    /// The id under which a lost incarnation pushed it, and how far.
    pub(super) pushed: Option<(UpdateId, UpdateReach)>,
    /// Whether the server that counts steps has it.
    pub(super) counted: bool,
    /// The round it was handed out for.
    pub(super) round: Option<u64>,
    /// The last worker that could not run it. Another one is preferred.
    pub(super) avoid: Option<TaskIncarnation>,
    /// Whether the outcome will be taken.
    pub(super) wanted: bool,
}

impl<W, R> Step<W, R> {
    pub(super) fn new(work: W, bytes: usize, effect: StepEffect) -> Self {
        let (state, causes) = (StepState::Queued, Vec::new());
        let (work, runs, wanted) = (Some(work), 0, true);
        let (pushed, counted, round, avoid) = (None, false, None, None);
        Self { work, bytes, effect, state, runs, causes, pushed, counted, round, avoid, wanted }
    }

    /// Returns how far its update got.
    pub(super) fn reach(&self) -> UpdateReach {
        self.pushed.map_or(UpdateReach::Nowhere, |(_, reach)| reach)
    }
}
