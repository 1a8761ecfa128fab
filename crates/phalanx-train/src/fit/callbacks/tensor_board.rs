//! Curves for TensorBoard.

use super::{Callback, FitContext};
use crate::fit::Logs;
use crate::{SummaryWriter, run_dir};
use phalanx_base::Result;

/// Keras' `TensorBoard`: writes to `train` and `validation` under the directory: `epoch_loss` and so on by epoch,
/// `evaluation_loss_vs_iterations` by step, and on request `batch_loss` and histograms of the weights.
///
/// ```
/// use phalanx_train::fit::{Fit, callbacks::TensorBoard};
/// let fit = Fit::epochs(20).callback(TensorBoard::new("runs/line"));
/// # let _ = fit;
/// ```
pub struct TensorBoard {
    log_dir: String,
    every: Option<u64>,
    histograms: usize,
    train: SummaryWriter,
    validation: SummaryWriter,
}

impl TensorBoard {
    /// Writes under this directory.
    #[must_use]
    pub fn new(log_dir: impl Into<String>) -> Self {
        let (train, validation) = (SummaryWriter::none(), SummaryWriter::none());
        Self { log_dir: log_dir.into(), every: None, histograms: 0, train, validation }
    }

    crate::setters! {
        /// Also writes every `steps` steps.
        update_freq(steps: u64) { every = Some(steps.max(1)) }
        /// Writes histograms of the weights every `epochs` epochs.
        histogram_freq(epochs: usize) { histograms = epochs }
    }
}

impl Callback for TensorBoard {
    fn on_train_begin(&mut self, cx: &mut FitContext<'_>) -> Result<()> {
        if cx.should_checkpoint() {
            let dir = run_dir::open_run_dir(&self.log_dir)?;
            self.train = SummaryWriter::open(&dir.child("train")?)?;
            self.validation = SummaryWriter::open(&dir.child("validation")?)?;
        }
        Ok(())
    }

    fn on_train_batch_end(&mut self, cx: &mut FitContext<'_>, _: u64, logs: &Logs) -> Result<()> {
        if self.every.is_some_and(|every| cx.iterations().is_multiple_of(every)) {
            let step = cx.iterations();
            logs.iter().for_each(|(name, number)| self.train.scalar(step, &format!("batch_{name}"), number as f32));
        }
        Ok(())
    }

    fn on_test_end(&mut self, cx: &mut FitContext<'_>, logs: &Logs) -> Result<()> {
        for (name, number) in logs.iter() {
            let name = name.strip_prefix("val_").unwrap_or(name);
            self.validation.scalar(cx.iterations(), &format!("evaluation_{name}_vs_iterations"), number as f32);
        }
        Ok(())
    }

    fn on_epoch_end(&mut self, cx: &mut FitContext<'_>, epoch: usize, logs: &mut Logs) -> Result<()> {
        let step = epoch as u64;
        for (name, number) in logs.iter() {
            match name.strip_prefix("val_") {
                Some(name) => self.validation.scalar(step, &format!("epoch_{name}"), number as f32),
                None => self.train.scalar(step, &format!("epoch_{name}"), number as f32),
            }
        }
        if self.histograms > 0 && epoch.is_multiple_of(self.histograms) && cx.should_checkpoint() {
            let tag = |name: &str| format!("{name}_0/histogram");
            cx.weights()?.iter().for_each(|weight| self.train.histogram(step, &tag(&weight.name), &weight.values));
        }
        Ok(())
    }

    fn on_train_end(&mut self, _: &mut FitContext<'_>, _: &Logs) -> Result<()> {
        // Dropping a writer flushes it.
        (self.train, self.validation) = (SummaryWriter::none(), SummaryWriter::none());
        Ok(())
    }
}
