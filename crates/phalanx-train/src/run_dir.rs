//! Where and how often a job keeps itself: the settings of a run directory.

use crate::Server;
use crate::checkpoint::{Catalog, Pace, Retention, RunLock, Saver};
use crate::services::Timer;
use phalanx_base::Result;
use phalanx_storage::Dir;
use std::time::Duration;

/// What a supervisor was told about its run directory; TensorFlow's defaults.
#[derive(Clone)]
pub(crate) struct RunDir {
    pub(crate) dir: Option<Dir>,
    pub(crate) basename: String,
    pub(crate) retention: Retention,
    pub(crate) save_secs: Option<u64>,
    pub(crate) save_steps: Option<u64>,
    pub(crate) summary_secs: Option<u64>,
}

impl Default for RunDir {
    fn default() -> Self {
        Self {
            dir: None,
            basename: "model.ckpt".to_owned(),
            retention: Retention::default(),
            save_secs: Some(600),
            save_steps: None,
            summary_secs: Some(120),
        }
    }
}

impl RunDir {
    /// What saves into the directory, where there is one, for the job of `server`; `rounds` for synchronous training.
    pub(crate) fn saver(&self, server: &Server, rounds: bool) -> Result<Option<Saver>> {
        let Some(dir) = &self.dir else { return Ok(None) };
        dir.create_all()?;
        let lock = RunLock::take(dir, server)?;
        Ok(Some(Saver::new(Catalog::open(dir, &self.basename, self.retention)?, lock, rounds)))
    }

    pub(crate) fn save_pace(&self) -> Pace {
        Pace { every: self.save_secs.map(Duration::from_secs), steps: self.save_steps }
    }

    pub(crate) fn summary_pace(&self) -> Option<Timer> {
        self.summary_secs.map(|seconds| Timer::new(Duration::from_secs(seconds)))
    }
}

/// A location as every task of this machine understands it, whatever directory it was started in.
pub(crate) fn open(location: &str) -> Result<Dir> {
    if location.contains("://") {
        return Dir::open(location);
    }
    let absolute = std::path::absolute(location).unwrap_or_else(|_| location.into());
    Dir::open(&absolute.to_string_lossy())
}
