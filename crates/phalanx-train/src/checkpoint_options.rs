//! Where and how often a job saves checkpoints and summaries.

use crate::Server;
use crate::checkpoint::{CheckpointInterval, CheckpointStore, Retention, RunLock, SavePeriod, Saver};
use crate::summary::SummaryInterval;
use phalanx_base::Result;
use phalanx_storage::Dir;

/// The settings of a supervisor's run directory; the defaults are TensorFlow's, except that the first checkpoints come sooner.
#[derive(Clone)]
pub(crate) struct CheckpointOptions {
    pub(crate) dir: Option<Dir>,
    /// Whether this task restores from the directory and leaves it to another one to save.
    pub(crate) restores_only: bool,
    pub(crate) basename: String,
    pub(crate) retention: Retention,
    pub(crate) save: CheckpointInterval,
    /// How often summaries are written, if at all.
    pub(crate) summaries: Option<SummaryInterval>,
    /// Whether histograms of variables are among them.
    pub(crate) histograms: bool,
}

impl Default for CheckpointOptions {
    fn default() -> Self {
        Self {
            dir: None,
            restores_only: false,
            basename: "model.ckpt".to_owned(),
            retention: Retention::default(),
            save: CheckpointInterval { time: Some(SavePeriod::Growing), steps: None },
            summaries: Some(SummaryInterval::Growing),
            histograms: false,
        }
    }
}

impl CheckpointOptions {
    /// Locks the directory, if there is one, for the job of `server`, and returns its saver; `rounds` for synchronous training.
    pub(crate) fn saver(&self, server: &Server, rounds: bool) -> Result<Option<Saver>> {
        let Some(dir) = &self.dir else { return Ok(None) };
        dir.create_all()?;
        let lock = (!self.restores_only).then(|| RunLock::take(dir, server)).transpose()?;
        Ok(Some(Saver::new(CheckpointStore::open(dir, &self.basename, self.retention)?, lock, rounds)))
    }
}
