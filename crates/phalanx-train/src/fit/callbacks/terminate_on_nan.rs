//! Stops when the loss is not finite.

use super::{Callback, FitContext, warn};
use crate::fit::Logs;
use phalanx_base::Result;

/// Keras' `TerminateOnNaN`: stops when the loss is NaN or infinite.
///
/// ```
/// use phalanx_train::fit::{Fit, callbacks::TerminateOnNan};
/// let fit = Fit::epochs(20).callback(TerminateOnNan::default());
/// # let _ = fit;
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct TerminateOnNan;

impl Callback for TerminateOnNan {
    fn on_train_batch_end(&mut self, cx: &mut FitContext<'_>, batch: u64, logs: &Logs) -> Result<()> {
        if logs.get("loss").is_some_and(|loss| !loss.is_finite()) {
            warn(&format!("batch {batch}: the loss is not finite; training stops"));
            cx.stop_training();
        }
        Ok(())
    }
}
