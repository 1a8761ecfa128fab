//! Functions as callbacks.

use super::{Callback, FitContext};
use crate::fit::Logs;
use phalanx_base::Result;

type OnTrain = Box<dyn FnMut(&mut FitContext<'_>) -> Result<()>>;
type OnEpochBegin = Box<dyn FnMut(&mut FitContext<'_>, usize) -> Result<()>>;
type OnEpochEnd = Box<dyn FnMut(&mut FitContext<'_>, usize, &mut Logs) -> Result<()>>;
type OnBatchEnd = Box<dyn FnMut(&mut FitContext<'_>, u64, &Logs) -> Result<()>>;

/// Keras' `LambdaCallback`.
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
    /// One that does nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Before the first epoch.
    #[must_use]
    pub fn on_train_begin(mut self, call: impl FnMut(&mut FitContext<'_>) -> Result<()> + 'static) -> Self {
        self.train_begin = Some(Box::new(call));
        self
    }

    /// After the last epoch.
    #[must_use]
    pub fn on_train_end(mut self, call: impl FnMut(&mut FitContext<'_>) -> Result<()> + 'static) -> Self {
        self.train_end = Some(Box::new(call));
        self
    }

    /// Before an epoch, which counts from 0.
    #[must_use]
    pub fn on_epoch_begin(mut self, call: impl FnMut(&mut FitContext<'_>, usize) -> Result<()> + 'static) -> Self {
        self.epoch_begin = Some(Box::new(call));
        self
    }

    /// After an epoch.
    #[must_use]
    pub fn on_epoch_end(
        mut self,
        call: impl FnMut(&mut FitContext<'_>, usize, &mut Logs) -> Result<()> + 'static,
    ) -> Self {
        self.epoch_end = Some(Box::new(call));
        self
    }

    /// After a step.
    #[must_use]
    pub fn on_batch_end(mut self, call: impl FnMut(&mut FitContext<'_>, u64, &Logs) -> Result<()> + 'static) -> Self {
        self.batch_end = Some(Box::new(call));
        self
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
