//! Callbacks that run between the steps and epochs of a `fit`.

mod backup_and_restore;
mod best;
mod csv_logger;
mod early_stopping;
mod lambda;
mod learning_rate_scheduler;
mod model_checkpoint;
mod reduce_lr_on_plateau;
mod run_summaries;
mod template;
mod tensor_board;
mod terminate_on_nan;
mod written;

pub use backup_and_restore::BackupAndRestore;
pub use best::Direction;
pub use csv_logger::CsvLogger;
pub use early_stopping::EarlyStopping;
pub use lambda::Lambda;
pub use learning_rate_scheduler::LearningRateScheduler;
pub use model_checkpoint::ModelCheckpoint;
pub use reduce_lr_on_plateau::ReduceLrOnPlateau;
pub(super) use run_summaries::RunSummaries;
pub use tensor_board::TensorBoard;
pub use terminate_on_nan::TerminateOnNan;

use super::accumulators::Accumulators;
use super::state::{FitPosition, ResumeState, restore, save};
use super::trained_state::TrainedState;
use super::{Logs, Weight};
use crate::checkpoint::CheckpointStore;
use phalanx_base::Result;
use phalanx_data::ReplicaIterator;

/// Keras' callback: override the methods you need. Every worker calls its own callbacks; the logs of an epoch are those
/// of all workers, the logs of a batch those of the worker. With
/// parameter servers ([`Strategy::parameter_server`](crate::Strategy::parameter_server)) only the chief calls them, and all
/// logs are those of all workers. Epochs and batches count from 0. An error ends the training.
///
/// ```
/// use phalanx_base::Result;
/// use phalanx_train::fit::{Logs, callbacks::{Callback, FitContext}};
/// /// Ends the training when the loss is good enough.
/// struct GoodEnough(f64);
///
/// impl Callback for GoodEnough {
///     fn on_epoch_end(&mut self, cx: &mut FitContext<'_>, _epoch: usize, logs: &mut Logs) -> Result<()> {
///         if logs.find("loss")? < self.0 {
///             cx.stop_training();
///         }
///         Ok(())
///     }
/// }
/// ```
#[allow(unused_variables, reason = "the names say what is given")]
pub trait Callback {
    /// Called before the first epoch.
    ///
    /// # Errors
    /// As for all methods, an error ends the training.
    fn on_train_begin(&mut self, cx: &mut FitContext<'_>) -> Result<()> {
        Ok(())
    }

    /// Called after the last epoch, with its logs. Not called after an error or an interruption.
    fn on_train_end(&mut self, cx: &mut FitContext<'_>, logs: &Logs) -> Result<()> {
        Ok(())
    }

    /// Called before an epoch.
    fn on_epoch_begin(&mut self, cx: &mut FitContext<'_>, epoch: usize) -> Result<()> {
        Ok(())
    }

    /// Called after an epoch and its validation. May add to `logs`.
    fn on_epoch_end(&mut self, cx: &mut FitContext<'_>, epoch: usize, logs: &mut Logs) -> Result<()> {
        Ok(())
    }

    /// Called after a step.
    fn on_train_batch_end(&mut self, cx: &mut FitContext<'_>, batch: u64, logs: &Logs) -> Result<()> {
        Ok(())
    }

    /// Called before a validation.
    fn on_test_begin(&mut self, cx: &mut FitContext<'_>) -> Result<()> {
        Ok(())
    }

    /// Called after a validation.
    fn on_test_end(&mut self, cx: &mut FitContext<'_>, logs: &Logs) -> Result<()> {
        Ok(())
    }

    /// Called in every worker after the last step of an interrupted training.
    fn on_interrupt(&mut self, cx: &mut FitContext<'_>) -> Result<()> {
        Ok(())
    }
}

/// A callback's access to the running training.
pub struct FitContext<'a> {
    pub(super) model: &'a mut dyn TrainedState,
    pub(super) at: FitPosition,
    pub(super) batches: Option<&'a ReplicaIterator>,
    pub(super) accumulators: &'a [Accumulators],
    pub(super) asked: &'a mut bool,
    pub(super) resumed: &'a mut Option<ResumeState>,
}

impl FitContext<'_> {
    /// Returns the number of updates.
    #[must_use]
    pub fn iterations(&self) -> u64 {
        self.model.iterations()
    }

    /// Returns the current learning rate.
    #[must_use]
    pub fn learning_rate(&self) -> f32 {
        self.model.learning_rate()
    }

    /// Sets the learning rate. Every worker must do the same.
    ///
    /// # Errors
    /// Fails if it is out of range.
    pub fn set_learning_rate(&mut self, rate: f32) -> Result<()> {
        self.model.set_learning_rate(rate)
    }

    /// Returns the weights of the model.
    ///
    /// # Errors
    /// Fails if they cannot be read.
    pub fn weights(&mut self) -> Result<Vec<Weight>> {
        self.model.weights()
    }

    /// Replaces weights. Every worker must do the same.
    ///
    /// # Errors
    /// Fails if the model has no such weight.
    pub fn set_weights(&mut self, weights: Vec<Weight>) -> Result<()> {
        self.model.set_weights(weights)
    }

    /// Saves the weights on the first worker; see [`super::Compiled::save_weights`].
    ///
    /// # Errors
    /// Fails if the files cannot be written.
    pub fn save_weights(&mut self, location: &str) -> Result<()> {
        self.model.save_weights(location)
    }

    /// Loads weights. Every worker must do the same.
    ///
    /// # Errors
    /// Fails if the files cannot be read or do not fit.
    pub fn load_weights(&mut self, location: &str) -> Result<()> {
        self.model.load_weights(location)
    }

    /// Returns whether this process writes files: only the first worker does.
    #[must_use]
    pub fn should_checkpoint(&self) -> bool {
        self.model.strategy().should_checkpoint()
    }

    /// Ends the training of all workers after this step or epoch.
    pub fn stop_training(&mut self) {
        *self.asked = true;
    }

    /// Saves a backup; all workers take part.
    fn back_up(&mut self, catalog: &mut Option<CheckpointStore>) -> Result<()> {
        save(self.model, self.at, self.batches, self.accumulators, catalog)
    }

    /// Restores the newest backup. Returns whether there was one.
    fn resume(&mut self, catalog: &CheckpointStore) -> Result<bool> {
        self.model.check_backup()?;
        *self.resumed = restore(self.model, catalog)?;
        Ok(self.resumed.is_some())
    }
}

/// Returns the value that a callback monitors. If it is not reported, warns with the consequence `so`.
fn monitored(logs: &Logs, monitor: &str, who: &str, so: &str) -> Option<f64> {
    let number = logs.get(monitor);
    if number.is_none() {
        warn(&format!("{who}: nothing is reported as {monitor:?}; {so}"));
    }
    number
}

fn warn(line: &str) {
    tracing::warn!("{line}");
}
