//! Reduces the learning rate of a training that no longer improves.

use super::best::Best;
use super::{Callback, Direction, FitContext, monitored};
use crate::fit::Logs;
use phalanx_base::{Code, Error, Result};

/// Keras' `ReduceLROnPlateau`. Reports the rate of each epoch as `lr`.
///
/// ```
/// use phalanx_train::fit::{Fit, callbacks::ReduceLrOnPlateau};
/// let fit = Fit::epochs(20).callback(ReduceLrOnPlateau::new("val_loss").factor(0.5).patience(2));
/// # let _ = fit;
/// ```
#[derive(Clone, Debug)]
pub struct ReduceLrOnPlateau {
    monitor: String,
    factor: f32,
    patience: usize,
    cooldown: usize,
    min_lr: f32,
    best: Best,
    wait: usize,
    cooling: usize,
}

impl ReduceLrOnPlateau {
    /// Monitors this value, such as `val_loss`. By default, 10 epochs without an improvement by 1e-4 divide the rate by 10.
    #[must_use]
    pub fn new(monitor: &str) -> Self {
        Self {
            monitor: monitor.to_owned(),
            factor: 0.1,
            patience: 10,
            cooldown: 0,
            min_lr: 0.0,
            best: Best::new(monitor, Direction::Auto, 1e-4),
            wait: 0,
            cooling: 0,
        }
    }

    crate::setters! {
        /// Sets the factor that the rate is multiplied by; less than 1.
        factor(factor: f32) { factor = factor }
        /// Sets how many epochs may pass without an improvement.
        patience(epochs: usize) { patience = epochs }
    }

    /// Sets whether the value should fall or rise, and the smallest change that counts.
    #[must_use]
    pub fn direction(mut self, direction: Direction, min_delta: f64) -> Self {
        self.best = Best::new(&self.monitor, direction, min_delta);
        self
    }

    crate::setters! {
        /// Sets how many epochs after a reduction do not count; 0 by default.
        cooldown(epochs: usize) { cooldown = epochs }
        /// Sets the lowest rate; 0 by default.
        min_lr(rate: f32) { min_lr = rate }
    }
}

impl Callback for ReduceLrOnPlateau {
    fn on_train_begin(&mut self, _: &mut FitContext<'_>) -> Result<()> {
        if (0.0..1.0).contains(&self.factor) {
            return Ok(());
        }
        let what = format!("ReduceLrOnPlateau has a factor of {}, which does not reduce the rate", self.factor);
        Err(Error::new(Code::BadSetting, what).help("choose a factor in [0, 1)"))
    }

    fn on_epoch_end(&mut self, cx: &mut FitContext<'_>, _: usize, logs: &mut Logs) -> Result<()> {
        let rate = cx.learning_rate();
        logs.set("lr", f64::from(rate));
        let Some(number) = monitored(logs, &self.monitor, "ReduceLrOnPlateau", "it has no effect") else {
            return Ok(());
        };
        if self.cooling > 0 {
            self.cooling -= 1;
            self.wait = 0;
        }
        if self.best.improve(number) {
            self.wait = 0;
        } else if self.cooling == 0 {
            self.wait += 1;
            if self.wait >= self.patience && rate > self.min_lr {
                cx.set_learning_rate((rate * self.factor).max(self.min_lr))?;
                (self.cooling, self.wait) = (self.cooldown, 0);
            }
        }
        Ok(())
    }
}
