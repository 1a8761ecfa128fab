//! Saves the weights after epochs or steps.

use super::best::Best;
use super::{Callback, Direction, FitContext, monitored, template};
use crate::fit::Logs;
use phalanx_base::Result;

/// Keras' `ModelCheckpoint`. The location may contain fields, as in `runs/{epoch:02d}-{val_loss:.2f}`. It names a
/// safetensors file if it ends in `.safetensors`, else the prefix of a TensorFlow checkpoint.
///
/// ```
/// use phalanx_train::fit::{Fit, callbacks::ModelCheckpoint};
/// let fit = Fit::epochs(20).callback(ModelCheckpoint::new("runs/line/best").monitor("val_loss").save_best_only());
/// # let _ = fit;
/// ```
#[derive(Clone, Debug)]
pub struct ModelCheckpoint {
    location: String,
    monitor: String,
    direction: Direction,
    best: Option<Best>,
    threshold: Option<f64>,
    every: Option<u64>,
    batches: u64,
}

impl ModelCheckpoint {
    /// Saves after every epoch.
    #[must_use]
    pub fn new(location: impl Into<String>) -> Self {
        let (monitor, direction) = ("val_loss".to_owned(), Direction::Auto);
        Self { location: location.into(), monitor, direction, best: None, threshold: None, every: None, batches: 0 }
    }

    /// Sets the value that decides what is best; `val_loss` by default.
    #[must_use]
    pub fn monitor(mut self, name: &str) -> Self {
        self.monitor = name.to_owned();
        self.best = self.best.map(|_| Best::new(name, self.direction, 0.0));
        self
    }

    /// Sets whether that value should fall or rise.
    #[must_use]
    pub fn direction(mut self, direction: Direction) -> Self {
        self.direction = direction;
        self.best = self.best.map(|_| Best::new(&self.monitor, direction, 0.0));
        self
    }

    /// Saves only when the monitored value is the best so far.
    #[must_use]
    pub fn save_best_only(mut self) -> Self {
        self.best = Some(Best::new(&self.monitor, self.direction, 0.0));
        self
    }

    crate::setters! {
        /// Sets the best value so far, to continue an earlier training.
        initial_value_threshold(number: f64) { threshold = Some(number) }
        /// Saves every `steps` steps instead of after epochs.
        save_freq(steps: u64) { every = Some(steps.max(1)) }
    }

    fn save(&mut self, cx: &mut FitContext<'_>, batch: Option<u64>, logs: &Logs) -> Result<()> {
        if let Some(best) = &mut self.best {
            let number = monitored(logs, &self.monitor, "ModelCheckpoint", "nothing is saved");
            if !number.is_some_and(|number| best.improve(number)) {
                return Ok(());
            }
        }
        let epoch = if batch.is_some() { cx.at.epoch + 1 } else { cx.at.epoch };
        cx.save_weights(&template::fill(&self.location, epoch, batch, logs)?)
    }
}

impl Callback for ModelCheckpoint {
    fn on_train_begin(&mut self, _: &mut FitContext<'_>) -> Result<()> {
        if let (Some(best), Some(threshold)) = (&mut self.best, self.threshold) {
            best.value = threshold;
        }
        Ok(())
    }

    fn on_train_batch_end(&mut self, cx: &mut FitContext<'_>, batch: u64, logs: &Logs) -> Result<()> {
        self.batches += 1;
        match self.every {
            Some(every) if self.batches.is_multiple_of(every) => self.save(cx, Some(batch + 1), logs),
            _ => Ok(()),
        }
    }

    fn on_epoch_end(&mut self, cx: &mut FitContext<'_>, _: usize, logs: &mut Logs) -> Result<()> {
        if self.every.is_some() { Ok(()) } else { self.save(cx, None, logs) }
    }
}
