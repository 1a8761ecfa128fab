//! A learning rate per epoch.

use super::{Callback, FitContext};
use crate::fit::Logs;
use phalanx_base::Result;

/// Keras' `LearningRateScheduler`: a function of the epoch and the current rate. Reports the rate as `lr`.
///
/// ```
/// use phalanx_train::fit::{Fit, callbacks::LearningRateScheduler};
/// let fit = Fit::epochs(20).callback(LearningRateScheduler::new(|epoch, rate| if epoch < 10 { rate } else { rate * 0.9 }));
/// # let _ = fit;
/// ```
pub struct LearningRateScheduler<F>(F);

impl<F: FnMut(usize, f32) -> f32> LearningRateScheduler<F> {
    /// Uses `schedule(epoch, rate)` as the rate of the epoch; epochs count from 0.
    #[must_use]
    pub fn new(schedule: F) -> Self {
        Self(schedule)
    }
}

impl<F: FnMut(usize, f32) -> f32> Callback for LearningRateScheduler<F> {
    fn on_epoch_begin(&mut self, cx: &mut FitContext<'_>, epoch: usize) -> Result<()> {
        let rate = (self.0)(epoch, cx.learning_rate());
        cx.set_learning_rate(rate)
    }

    fn on_epoch_end(&mut self, cx: &mut FitContext<'_>, _: usize, logs: &mut Logs) -> Result<()> {
        logs.set("lr", f64::from(cx.learning_rate()));
        Ok(())
    }
}
