//! Stops a training that no longer improves.

use super::best::Best;
use super::{Callback, Direction, FitContext, monitored};
use crate::fit::{Logs, Weight};
use phalanx_base::Result;

/// Keras' `EarlyStopping`: stops when the monitored value has stopped improving.
///
/// ```
/// use phalanx_train::fit::{Fit, callbacks::EarlyStopping};
/// let fit = Fit::epochs(20).callback(EarlyStopping::new("val_loss").patience(3).restore_best_weights());
/// # let _ = fit;
/// ```
#[derive(Clone, Debug)]
pub struct EarlyStopping {
    monitor: String,
    direction: Direction,
    min_delta: f64,
    patience: usize,
    baseline: Option<f64>,
    start_from_epoch: usize,
    restore_best_weights: bool,
    best: Best,
    weights: Option<Vec<Weight>>,
    wait: usize,
}

impl EarlyStopping {
    /// Monitors this value, such as `val_loss`.
    #[must_use]
    pub fn new(monitor: &str) -> Self {
        let direction = Direction::Auto;
        Self {
            monitor: monitor.to_owned(),
            direction,
            min_delta: 0.0,
            patience: 0,
            baseline: None,
            start_from_epoch: 0,
            restore_best_weights: false,
            best: Best::new(monitor, direction, 0.0),
            weights: None,
            wait: 0,
        }
    }

    crate::setters! {
        /// Sets whether the value should fall or rise.
        direction(direction: Direction) { direction = direction }
        /// Sets the smallest change that counts as an improvement; 0 by default.
        min_delta(delta: f64) { min_delta = delta }
        /// Sets how many epochs may pass without an improvement; 0 by default.
        patience(epochs: usize) { patience = epochs }
        /// Sets a baseline: only values better than it reset the patience.
        baseline(number: f64) { baseline = Some(number) }
        /// Sets the first epoch that counts; 0 by default.
        start_from_epoch(epoch: usize) { start_from_epoch = epoch }
    }

    /// Restores the weights of the best epoch when it stops.
    #[must_use]
    pub fn restore_best_weights(mut self) -> Self {
        self.restore_best_weights = true;
        self
    }
}

impl Callback for EarlyStopping {
    fn on_train_begin(&mut self, _: &mut FitContext<'_>) -> Result<()> {
        self.best = Best::new(&self.monitor, self.direction, self.min_delta);
        (self.wait, self.weights) = (0, None);
        Ok(())
    }

    fn on_epoch_end(&mut self, cx: &mut FitContext<'_>, epoch: usize, logs: &mut Logs) -> Result<()> {
        let Some(number) = monitored(logs, &self.monitor, "EarlyStopping", "it has no effect") else {
            return Ok(());
        };
        if epoch < self.start_from_epoch {
            return Ok(());
        }
        if self.restore_best_weights && self.weights.is_none() {
            self.weights = Some(cx.weights()?);
        }
        self.wait += 1;
        if self.best.improve(number) {
            if self.restore_best_weights {
                self.weights = Some(cx.weights()?);
            }
            if self.baseline.is_none_or(|baseline| self.best.is_better(number, baseline)) {
                self.wait = 0;
            }
            return Ok(());
        }
        if self.wait >= self.patience && epoch > 0 {
            cx.stop_training();
            if let Some(weights) = self.weights.take() {
                cx.set_weights(weights)?;
            }
        }
        Ok(())
    }
}
