//! A step: its name, what a worker is told about it, and what becomes of it.

use super::Life;
use phalanx_base::{Error, UpdateName};

/// A step's number, in the order in which steps were scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StepId(pub u64);

impl std::fmt::Display for StepId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "step {}", self.0)
    }
}

/// One run of a step by one life: what a report is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket {
    /// The step.
    pub step: StepId,
    /// Which of the life's turns it is, from 1 without gaps.
    pub turn: u64,
}

impl std::fmt::Display for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (turn {})", self.step, self.turn)
    }
}

/// Whether a step changes the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It pushes gradients.
    Update,
    /// It pushes nothing: an evaluation.
    Nothing,
}

/// A step as a worker gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment<W> {
    /// What to report it under.
    pub ticket: Ticket,
    /// What to do.
    pub work: W,
    /// Whether it pushes.
    pub effect: Effect,
    /// Push under this name, on behalf of a lost life, and not under the next name of one's own.
    pub on_behalf_of: Option<UpdateName>,
    /// Which run this is, from 1.
    pub attempt: usize,
    /// The worker's count of steps, as a bound on drift sees it.
    pub number: u64,
    /// The round that its gradients are for, where they are collected into rounds.
    pub round: Option<u64>,
    /// How many rounds are closed.
    pub closed: u64,
}

/// How far a step's update got, as far as the scheduler knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// No server has it, or there was nothing to push.
    Nowhere,
    /// Some servers have it and some may not. The name is one of [`Scheduler::take_owed`](super::Scheduler::take_owed).
    Somewhere,
    /// Every server has it.
    Everywhere,
}

/// What became of a step.
#[derive(Clone, Debug)]
pub enum Outcome<R> {
    /// It ran, every server has its update once, and this is its result.
    Ok(R),
    /// It failed. Its update counts as far as it got, which is nowhere unless a worker was lost in the middle of it.
    Failed {
        /// Why.
        error: Error,
        /// How far its update had got.
        update: Reach,
    },
    /// It was never handed to a worker.
    Cancelled,
    /// The job ended while a worker had it.
    Unknown,
}

/// Where a step is.
#[derive(Clone, Debug)]
pub(super) enum State<R> {
    /// In the queue.
    Queued,
    /// With a worker.
    Out,
    /// Over.
    Done(Outcome<R>),
}

/// What the scheduler knows of a step.
#[derive(Clone, Debug)]
pub(super) struct Step<W, R> {
    /// Kept while the step may have to run again.
    pub(super) work: Option<W>,
    pub(super) bytes: usize,
    pub(super) effect: Effect,
    pub(super) state: State<R>,
    /// How often it was handed out.
    pub(super) runs: usize,
    /// What trouble ended its runs.
    pub(super) causes: Vec<String>,
    /// The name under which a lost life pushed it, and how far.
    pub(super) pushed: Option<(UpdateName, Reach)>,
    /// Whether the server that counts steps has it.
    pub(super) counted: bool,
    /// The round it was handed out for.
    pub(super) round: Option<u64>,
    /// Who had trouble with it last: better given to somebody else.
    pub(super) avoid: Option<Life>,
    /// Whether somebody will ask for the outcome.
    pub(super) wanted: bool,
}

impl<W, R> Step<W, R> {
    pub(super) fn new(work: W, bytes: usize, effect: Effect) -> Self {
        let (state, causes) = (State::Queued, Vec::new());
        let (work, runs, wanted) = (Some(work), 0, true);
        let (pushed, counted, round, avoid) = (None, false, None, None);
        Self { work, bytes, effect, state, runs, causes, pushed, counted, round, avoid, wanted }
    }

    /// How far its update got.
    pub(super) fn reach(&self) -> Reach {
        self.pushed.map_or(Reach::Nowhere, |(_, reach)| reach)
    }
}
