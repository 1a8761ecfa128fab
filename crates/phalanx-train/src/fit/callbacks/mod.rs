//! What happens between the steps and epochs of a `fit`.

mod backup_and_restore;
mod best;
mod csv_logger;
mod early_stopping;
mod lambda;
mod learning_rate_scheduler;
mod model_checkpoint;
mod reduce_lr_on_plateau;
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
pub use tensor_board::TensorBoard;
pub use terminate_on_nan::TerminateOnNan;

use super::fitted::Fitted;
use super::state::{Place, Resumed, restore, save};
use super::tally::Tally;
use super::{Logs, Weight};
use crate::checkpoint::Catalog;
use phalanx_base::Result;
use phalanx_data::DistributedIter;

/// Keras' callback: override what is needed. With several workers every worker calls its own; numbers of an epoch are
/// those of all workers together, numbers of a batch those of the worker. Under a
/// [`ParameterServerStrategy`](crate::ParameterServerStrategy) the chief alone calls them, and all numbers are those of all
/// workers. Epochs and batches count from 0.
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
    /// Before the first epoch.
    ///
    /// # Errors
    /// What goes wrong ends the training; so for all of these.
    fn on_train_begin(&mut self, cx: &mut FitContext<'_>) -> Result<()> {
        Ok(())
    }

    /// After the last epoch, with its numbers. Not after an error or an interruption.
    fn on_train_end(&mut self, cx: &mut FitContext<'_>, logs: &Logs) -> Result<()> {
        Ok(())
    }

    /// Before an epoch.
    fn on_epoch_begin(&mut self, cx: &mut FitContext<'_>, epoch: usize) -> Result<()> {
        Ok(())
    }

    /// After an epoch and its validation. Numbers may be added.
    fn on_epoch_end(&mut self, cx: &mut FitContext<'_>, epoch: usize, logs: &mut Logs) -> Result<()> {
        Ok(())
    }

    /// After a step.
    fn on_train_batch_end(&mut self, cx: &mut FitContext<'_>, batch: u64, logs: &Logs) -> Result<()> {
        Ok(())
    }

    /// Before a validation.
    fn on_test_begin(&mut self, cx: &mut FitContext<'_>) -> Result<()> {
        Ok(())
    }

    /// After a validation.
    fn on_test_end(&mut self, cx: &mut FitContext<'_>, logs: &Logs) -> Result<()> {
        Ok(())
    }

    /// After the last step before the training is given up because somebody asked for it, in every worker.
    fn on_interrupt(&mut self, cx: &mut FitContext<'_>) -> Result<()> {
        Ok(())
    }
}

/// What a callback sees and may do.
pub struct FitContext<'a> {
    fitted: &'a mut dyn Fitted,
    place: Place,
    batches: Option<&'a DistributedIter>,
    tallies: &'a [Tally],
    asked: &'a mut bool,
    resumed: &'a mut Option<Resumed>,
}

impl<'a> FitContext<'a> {
    pub(super) fn new(
        fitted: &'a mut dyn Fitted,
        place: Place,
        batches: Option<&'a DistributedIter>,
        tallies: &'a [Tally],
        asked: &'a mut bool,
        resumed: &'a mut Option<Resumed>,
    ) -> Self {
        Self { fitted, place, batches, tallies, asked, resumed }
    }

    /// How many updates there were.
    #[must_use]
    pub fn iterations(&self) -> u64 {
        self.fitted.iterations()
    }

    /// The learning rate now.
    #[must_use]
    pub fn learning_rate(&self) -> f32 {
        self.fitted.learning_rate()
    }

    /// Replaces the learning rate; every worker must.
    ///
    /// # Errors
    /// When it is out of range.
    pub fn set_learning_rate(&mut self, rate: f32) -> Result<()> {
        self.fitted.set_learning_rate(rate)
    }

    /// The weights of the model.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn weights(&mut self) -> Result<Vec<Weight>> {
        self.fitted.weights()
    }

    /// Replaces weights; every worker must.
    ///
    /// # Errors
    /// When the model has no such weight.
    pub fn set_weights(&mut self, weights: Vec<Weight>) -> Result<()> {
        self.fitted.set_weights(weights)
    }

    /// Saves the weights, in the first worker; see [`super::Compiled::save_weights`].
    ///
    /// # Errors
    /// When the files cannot be written.
    pub fn save_weights(&mut self, location: &str) -> Result<()> {
        self.fitted.save_weights(location)
    }

    /// Loads weights; every worker must.
    ///
    /// # Errors
    /// When the files cannot be read or do not fit.
    pub fn load_weights(&mut self, location: &str) -> Result<()> {
        self.fitted.load_weights(location)
    }

    /// Whether this process writes files: with several workers only the first does.
    #[must_use]
    pub fn should_checkpoint(&self) -> bool {
        self.fitted.strategy().should_checkpoint()
    }

    /// Ends the training after this step or epoch, for all workers.
    pub fn stop_training(&mut self) {
        *self.asked = true;
    }

    /// Saves everything that is needed to go on; all workers take part.
    fn back_up(&mut self, catalog: &mut Option<Catalog>) -> Result<()> {
        save(self.fitted, self.place, self.batches, self.tallies, catalog)
    }

    /// Goes on from the newest backup, if there is one.
    fn resume(&mut self, catalog: &Catalog) -> Result<bool> {
        self.fitted.check_backup()?;
        *self.resumed = restore(self.fitted, catalog)?;
        Ok(self.resumed.is_some())
    }
}

/// Says something to whoever watches.
/// The number that a callback goes by. Where nobody reports it, that is said with what follows from it.
fn monitored(logs: &Logs, monitor: &str, who: &str, so: &str) -> Option<f64> {
    let number = logs.get(monitor);
    if number.is_none() {
        warn(&format!("{who}: nothing is reported as {monitor:?}; {so}"));
    }
    number
}

fn warn(line: &str) {
    eprintln!("{line}");
}
