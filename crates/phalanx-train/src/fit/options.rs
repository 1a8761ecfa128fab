//! How a model is fitted or evaluated.

use super::callbacks::Callback;
use super::{Data, Verbose};
use crate::Interrupt;
use std::collections::BTreeMap;

/// Settings of `fit`, with Keras' defaults. `evaluate` looks at those that concern it.
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
    /// So many passes over the data.
    #[must_use]
    pub fn epochs(epochs: usize) -> Self {
        Self { epochs: Some(epochs), ..Self::default() }
    }

    /// The epoch to begin with: one that was interrupted goes on with the right number.
    #[must_use]
    pub fn initial_epoch(mut self, epoch: usize) -> Self {
        self.initial_epoch = epoch;
        self
    }

    /// Rows in a global batch, for arrays; 32 unless set.
    #[must_use]
    pub fn batch_size(mut self, rows: usize) -> Self {
        self.batch_size = Some(rows);
        self
    }

    /// Steps that make an epoch: for data without an end. The data then goes on from epoch to epoch; arrays begin again
    /// where they end.
    #[must_use]
    pub fn steps_per_epoch(mut self, steps: u64) -> Self {
        self.steps_per_epoch = Some(steps);
        self
    }

    /// Evaluates on this data after each epoch.
    #[must_use]
    pub fn validation(mut self, data: impl Into<Data>) -> Self {
        self.validation = Some(data.into());
        self
    }

    /// Evaluates on the last part of the arrays, which is then not trained on.
    #[must_use]
    pub fn validation_split(mut self, fraction: f64) -> Self {
        self.validation_split = fraction;
        self
    }

    /// Steps of a validation, or of an evaluation; all there are unless set.
    #[must_use]
    pub fn validation_steps(mut self, steps: u64) -> Self {
        self.validation_steps = Some(steps);
        self
    }

    /// Evaluates after every so many epochs; every one unless set.
    #[must_use]
    pub fn validation_freq(mut self, epochs: usize) -> Self {
        self.validation_freq = Some(epochs);
        self
    }

    /// How much the examples of each class count; others count 1.
    #[must_use]
    pub fn class_weight(mut self, weights: impl IntoIterator<Item = (i64, f32)>) -> Self {
        self.class_weight = weights.into_iter().collect();
        self
    }

    /// The column that says how much each example counts; a column `sample_weight` of arrays is it anyway.
    #[must_use]
    pub fn sample_weight(mut self, column: &str) -> Self {
        self.sample_weight = Some(column.to_owned());
        self
    }

    /// Whether arrays are shuffled for each epoch; they are unless said otherwise.
    #[must_use]
    pub fn shuffle(mut self, yes: bool) -> Self {
        self.in_order = !yes;
        self
    }

    /// What shuffling starts from.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Adds something that happens in between.
    #[must_use]
    pub fn callback(mut self, callback: impl Callback + 'static) -> Self {
        self.callbacks.push(Box::new(callback));
        self
    }

    /// What is shown.
    #[must_use]
    pub fn verbose(mut self, verbose: Verbose) -> Self {
        self.verbose = verbose;
        self
    }

    /// Stops after the step when somebody asks this process to, in every worker; a
    /// [`BackupAndRestore`](super::callbacks::BackupAndRestore) saves there. A strategy that was made with
    /// [`ServerOptions`](crate::ServerOptions) stops by itself.
    #[must_use]
    pub fn interrupt(mut self, interrupt: Interrupt) -> Self {
        self.interrupt = interrupt;
        self
    }

    /// The display moves on, and callbacks hear of steps, only after every so many of an epoch; 1 unless set. Keras has it
    /// in `compile`.
    #[must_use]
    pub fn steps_per_execution(mut self, steps: u64) -> Self {
        self.steps_per_execution = steps;
        self
    }

    pub(super) fn is_validated(&self, epoch: usize) -> bool {
        (epoch + 1).is_multiple_of(self.validation_freq.unwrap_or(1).max(1))
    }
}
