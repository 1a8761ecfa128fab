//! The settings of `fit` and `evaluate`.

use super::callbacks::Callback;
use super::{Data, Verbose};
use crate::Interrupt;
use std::collections::BTreeMap;

/// Settings of `fit`, with Keras' defaults. `evaluate` uses some of them.
///
/// ```
/// use phalanx_train::fit::{Fit, Verbose, callbacks::EarlyStopping};
/// let fit = Fit::epochs(20)
///     .batch_size(64)
///     .validation_split(0.1)
///     .class_weight([(0, 1.0), (1, 3.0)])
///     .callback(EarlyStopping::new("val_loss"))
///     .verbose(Verbose::Silent);
/// # let _ = fit;
/// ```
#[derive(Default)]
pub struct Fit {
    pub(super) epochs: Option<usize>,
    pub(super) initial_epoch: usize,
    pub(super) batch_size: Option<usize>,
    pub(super) steps_per_epoch: Option<u64>,
    pub(super) validation: Option<Data>,
    pub(super) validation_split: f64,
    pub(super) validation_steps: Option<u64>,
    pub(super) validation_freq: Option<usize>,
    pub(super) class_weight: BTreeMap<i64, f32>,
    pub(super) sample_weight: Option<String>,
    pub(super) in_order: bool,
    pub(super) seed: u64,
    pub(super) callbacks: Vec<Box<dyn Callback>>,
    pub(super) verbose: Verbose,
    pub(super) interrupt: Interrupt,
    pub(super) steps_per_execution: u64,
}

impl Fit {
    /// Trains for `epochs` passes over the data.
    #[must_use]
    pub fn epochs(epochs: usize) -> Self {
        Self { epochs: Some(epochs), ..Self::default() }
    }

    crate::setters! {
        /// Sets the number of the first epoch, to continue an earlier training; 0 by default.
        initial_epoch(epoch: usize) { initial_epoch = epoch }
        /// Sets the global batch size of arrays; 32 by default.
        batch_size(rows: usize) { batch_size = Some(rows) }
        /// Sets the steps of an epoch, for data without an end. A dataset then continues from epoch to epoch; arrays repeat.
        steps_per_epoch(steps: u64) { steps_per_epoch = Some(steps) }
        /// Evaluates on this data after each epoch.
        validation(data: impl Into<Data>) { validation = Some(data.into()) }
        /// Evaluates on the last part of the arrays, which is then not trained on.
        validation_split(fraction: f64) { validation_split = fraction }
        /// Limits the steps of a validation or evaluation; unlimited by default.
        validation_steps(steps: u64) { validation_steps = Some(steps) }
        /// Validates after every `epochs` epochs; after each by default.
        validation_freq(epochs: usize) { validation_freq = Some(epochs) }
        /// Sets the weights of classes; others weigh 1.
        class_weight(weights: impl IntoIterator<Item = (i64, f32)>) { class_weight = weights.into_iter().collect() }
        /// Names the column of sample weights; `sample_weight` by default.
        sample_weight(column: &str) { sample_weight = Some(column.to_owned()) }
        /// Sets whether arrays are shuffled for each epoch; `true` by default.
        shuffle(yes: bool) { in_order = !yes }
        /// Sets the seed of shuffling.
        seed(seed: u64) { seed = seed }
    }

    /// Adds a callback.
    #[must_use]
    pub fn callback(mut self, callback: impl Callback + 'static) -> Self {
        self.callbacks.push(Box::new(callback));
        self
    }

    crate::setters! {
        /// Sets what is displayed.
        verbose(verbose: Verbose) { verbose = verbose }
        /// Stops all workers after the current step when `interrupt` fires;
        /// [`BackupAndRestore`](super::callbacks::BackupAndRestore) then saves. A strategy made with
        /// [`ServerOptions`](crate::ServerOptions) already observes theirs.
        interrupt(interrupt: Interrupt) { interrupt = interrupt }
        /// Updates the display and calls `on_train_batch_end` only every `steps` steps; 1 by default. In Keras this is an
        /// argument of `compile`.
        steps_per_execution(steps: u64) { steps_per_execution = steps }
    }

    pub(super) fn is_validated(&self, epoch: usize) -> bool {
        (epoch + 1).is_multiple_of(self.validation_freq.unwrap_or(1).max(1))
    }
}
