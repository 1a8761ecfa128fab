//! Backups that a restarted training continues from.

use super::{Callback, FitContext, warn};
use crate::checkpoint::{CheckpointStore, Retention};
use crate::fit::Logs;
use crate::run_dir;
use phalanx_base::Result;
use phalanx_storage::Dir;

/// Keras' `BackupAndRestore`: saves model, optimizer and input position after every epoch or every `n` steps, and when
/// the process is interrupted. A restarted `fit` continues from there with the same results as an uninterrupted one. The
/// backup is in `<dir>/chief` and is deleted when the training is done. The first worker writes it and all read it, so
/// they must share the directory.
///
/// ```
/// use phalanx_train::fit::{Fit, callbacks::BackupAndRestore};
/// let fit = Fit::epochs(20).callback(BackupAndRestore::new("runs/line/backup").save_freq(100));
/// # let _ = fit;
/// ```
pub struct BackupAndRestore {
    location: String,
    every: Option<u64>,
    keep: bool,
    catalog: Option<CheckpointStore>,
}

impl BackupAndRestore {
    /// Backs up after every epoch, under this directory.
    #[must_use]
    pub fn new(location: impl Into<String>) -> Self {
        Self { location: location.into(), every: None, keep: false, catalog: None }
    }

    /// Also backs up every `steps` steps.
    #[must_use]
    pub fn save_freq(mut self, steps: u64) -> Self {
        self.every = Some(steps.max(1));
        self
    }

    /// Keeps the backup when the training is done.
    #[must_use]
    pub fn keep(mut self) -> Self {
        self.keep = true;
        self
    }

    fn dir(&self) -> Result<Dir> {
        run_dir::open_run_dir(&self.location)?.child("chief")
    }
}

impl Callback for BackupAndRestore {
    fn on_train_begin(&mut self, cx: &mut FitContext<'_>) -> Result<()> {
        let retention = Retention { max_to_keep: 1, ..Retention::default() };
        let dir = self.dir()?;
        if cx.should_checkpoint() {
            dir.create_all()?;
        }
        let catalog = CheckpointStore::open(&dir, "ckpt", retention)?;
        if let Some(remark) = catalog.warning() {
            warn(remark);
        }
        if cx.resume(&catalog)? && cx.should_checkpoint() {
            let at = cx.resumed.as_ref().map(|resumed| resumed.at).unwrap_or_default();
            warn(&format!(
                "going on from the backup in {}: epoch {}, after {} steps",
                self.location,
                at.epoch + 1,
                at.batch
            ));
        }
        self.catalog = cx.should_checkpoint().then_some(catalog);
        Ok(())
    }

    fn on_train_batch_end(&mut self, cx: &mut FitContext<'_>, _: u64, _: &Logs) -> Result<()> {
        match self.every {
            Some(every) if cx.iterations().is_multiple_of(every) => cx.back_up(&mut self.catalog),
            _ => Ok(()),
        }
    }

    fn on_epoch_end(&mut self, cx: &mut FitContext<'_>, _: usize, _: &mut Logs) -> Result<()> {
        cx.back_up(&mut self.catalog)
    }

    fn on_interrupt(&mut self, cx: &mut FitContext<'_>) -> Result<()> {
        cx.back_up(&mut self.catalog)
    }

    fn on_train_end(&mut self, _: &mut FitContext<'_>, _: &Logs) -> Result<()> {
        match self.catalog.take() {
            Some(mut catalog) if !self.keep => catalog.clear(),
            _ => Ok(()),
        }
    }
}
