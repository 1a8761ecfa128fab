//! Functions as callbacks.

use super::{Callback, FitContext};
use crate::fit::Logs;
use phalanx_base::Result;

type OnTrain = Box<dyn FnMut(&mut FitContext<'_>) -> Result<()>>;
type OnEpochBegin = Box<dyn FnMut(&mut FitContext<'_>, usize) -> Result<()>>;
type OnEpochEnd = Box<dyn FnMut(&mut FitContext<'_>, usize, &mut Logs) -> Result<()>>;
type OnBatchEnd = Box<dyn FnMut(&mut FitContext<'_>, u64, &Logs) -> Result<()>>;

/// Keras' `LambdaCallback`: calls the given functions.
///
/// ```
/// use phalanx_train::fit::callbacks::Lambda;
/// let print = Lambda::new().on_epoch_end(|_, epoch, logs| {
///     eprintln!("epoch {epoch}: {logs}");
///     Ok(())
/// });
/// # let _ = print;
/// ```
#[derive(Default)]
pub struct Lambda {
    train_begin: Option<OnTrain>,
    train_end: Option<OnTrain>,
    epoch_begin: Option<OnEpochBegin>,
    epoch_end: Option<OnEpochEnd>,
    batch_end: Option<OnBatchEnd>,
}

impl Lambda {
    /// Creates a callback that does nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    crate::setters! {
        /// Sets the function to call before the first epoch.
        on_train_begin(call: impl FnMut(&mut FitContext<'_>) -> Result<()> + 'static) {
            train_begin = Some(Box::new(call))
        }
        /// Sets the function to call after the last epoch.
        on_train_end(call: impl FnMut(&mut FitContext<'_>) -> Result<()> + 'static) { train_end = Some(Box::new(call)) }
        /// Sets the function to call before an epoch; epochs count from 0.
        on_epoch_begin(call: impl FnMut(&mut FitContext<'_>, usize) -> Result<()> + 'static) {
            epoch_begin = Some(Box::new(call))
        }
        /// Sets the function to call after an epoch.
        on_epoch_end(call: impl FnMut(&mut FitContext<'_>, usize, &mut Logs) -> Result<()> + 'static) {
            epoch_end = Some(Box::new(call))
        }
        /// Sets the function to call after a step.
        on_batch_end(call: impl FnMut(&mut FitContext<'_>, u64, &Logs) -> Result<()> + 'static) {
            batch_end = Some(Box::new(call))
        }
    }
}

impl Callback for Lambda {
    fn on_train_begin(&mut self, cx: &mut FitContext<'_>) -> Result<()> {
        self.train_begin.as_mut().map_or(Ok(()), |call| call(cx))
    }

    fn on_train_end(&mut self, cx: &mut FitContext<'_>, _: &Logs) -> Result<()> {
        self.train_end.as_mut().map_or(Ok(()), |call| call(cx))
    }

    fn on_epoch_begin(&mut self, cx: &mut FitContext<'_>, epoch: usize) -> Result<()> {
        self.epoch_begin.as_mut().map_or(Ok(()), |call| call(cx, epoch))
    }

    fn on_epoch_end(&mut self, cx: &mut FitContext<'_>, epoch: usize, logs: &mut Logs) -> Result<()> {
        self.epoch_end.as_mut().map_or(Ok(()), |call| call(cx, epoch, logs))
    }

    fn on_train_batch_end(&mut self, cx: &mut FitContext<'_>, batch: u64, logs: &Logs) -> Result<()> {
        self.batch_end.as_mut().map_or(Ok(()), |call| call(cx, batch, logs))
    }
}
