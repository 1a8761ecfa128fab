//! What carries out the steps of a `fit`: replicas in this process and their group, or workers of a coordinator.

use super::accumulators::Accumulators;
use super::objective::Objective;
use super::state::{FitPosition, ResumeState};
use super::trained_state::TrainedState;
use phalanx_base::{Error, Result};
use phalanx_data::ReplicaIterator;

/// Carries out the steps of a `fit`. The loop above it is the same for all: epochs, callbacks, progress, logs.
pub(super) trait Executor {
    fn objectives(&self) -> &[Objective];

    /// Passes the training to `see`, for a callback.
    fn show(&mut self, see: &mut dyn FnMut(TrainingView<'_>) -> Result<()>) -> Result<()>;

    /// Finds the position of a training that continues; `None` if it begins.
    fn find_position(&mut self, begin: FitPosition) -> Result<Option<FitPosition>>;

    /// Continues from a backup.
    fn resume(&mut self, resumed: ResumeState) -> Result<()>;

    fn begin_epoch(&mut self, at: FitPosition) -> Result<()>;

    /// Does the next step of the epoch.
    fn step(&mut self, wish: Wish) -> Result<StepEnd>;

    /// Returns the sums of the epoch so far, as far as this process knows them.
    fn sums(&self) -> Result<Accumulators>;

    /// Ends the epoch when all its steps are done, and returns the sums of all replicas and workers.
    fn end_epoch(&mut self, at: FitPosition) -> Result<Accumulators>;

    /// Whether there is validation data.
    fn validates(&self) -> bool;

    /// Evaluates the validation data.
    fn validate(&mut self) -> Result<Accumulators>;

    /// Whether this process alone decides when the training stops.
    fn decides(&self) -> bool;

    /// Returns why the training was interrupted, if it was.
    fn interruption(&mut self) -> Option<Error>;

    /// Does what remains to be done after an interruption, once the callbacks have.
    fn give_up(&mut self) -> Result<()> {
        Ok(())
    }

    /// Runs `f` where its log events carry the task.
    fn in_scope(&mut self, f: &mut dyn FnMut());
}

/// The training as callbacks see it.
pub(super) struct TrainingView<'a> {
    pub(super) model: &'a mut dyn TrainedState,
    /// The iterator of a pass that is not over.
    pub(super) batches: Option<&'a ReplicaIterator>,
    pub(super) accumulators: &'a [Accumulators],
}

/// What the loop wants of the next step.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wish {
    /// The training stops: only steps that have begun are completed.
    pub(super) stop: bool,
    /// A callback of this process wants all workers to stop.
    pub(super) asked: bool,
    /// This process was interrupted.
    pub(super) interrupted: bool,
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepEnd {
    /// The model has learned.
    Trained {
        /// All workers stop.
        stop: bool,
        /// One of the workers was interrupted.
        interrupted: bool,
    },
    /// There was no data for another step.
    DataEnded,
    /// All steps of the epoch are done, or the training stops.
    Done,
    /// The training was interrupted before the step.
    Interrupted,
}
