//! Starts a new run from another run's checkpoint.

use crate::warm_start::find_checkpoint;
use crate::{Estimator, Trainable};
use phalanx_base::{Code, Context, Result};
use phalanx_formats::bundle::data_file;
use phalanx_ps::checkpoint::Checkpoint;
use phalanx_train::checkpoint::{BASENAME, CheckpointStore, Retention};

/// The file that records a run's origin.
const PROVENANCE: &str = "phalanx.resumed";

impl<M: Trainable> Estimator<M> {
    /// Copies a checkpoint - the newest of a run directory, or one such as `runs/a/model.ckpt-300` - to this run
    /// directory, where training then continues from its variables, optimizer slots and step. The file `phalanx.resumed`
    /// records the origin. Does nothing if the directory already has a checkpoint of that origin. Returns a description
    /// of the start, or `None` if the directory has a checkpoint of another origin.
    ///
    /// # Errors
    /// Fails if there is no such checkpoint, it is not of this model, or something cannot be read or written. A checkpoint of
    /// another model leaves nothing behind.
    pub fn start_from(&self, path: &str) -> Result<Option<String>> {
        if self.latest_checkpoint()?.is_some() {
            let known = self.dir.try_read(PROVENANCE, 1 << 16)?.unwrap_or_default();
            let known = String::from_utf8_lossy(&known).into_owned();
            return Ok((known.lines().next() == Some(path)).then(|| format!("the earlier copy of {path}")));
        }
        let (from, name) = find_checkpoint(path)?;
        let checkpoint = Checkpoint::open(&from, &name)?;
        // Before anything is copied: a checkpoint that does not fit would stand in the way of the next attempt.
        self.check_fits(&checkpoint).map_err(|error| error.at(format!("{}/{name}", from.location())))?;
        let step = checkpoint.global_step()?;
        let mut catalog = CheckpointStore::open(&self.dir, BASENAME, Retention::default())?;
        let own = catalog.name(step);
        let shards = checkpoint.index().shards();
        let mut staged = Vec::new();
        for shard in 0..shards {
            let mut read = from.open_read(&data_file(&name, shard, shards))?;
            let mut file = self.dir.stage(&data_file(&own, shard, shards))?;
            std::io::copy(&mut read, &mut file)
                .context(Code::StorageWrite, format!("checkpoint {name:?} cannot be copied"))?;
            staged.push(file.finish()?.name);
        }
        self.dir.write(PROVENANCE, format!("{path}\n{name}\n{step}\n").as_bytes())?;
        catalog.publish(&own, &staged, checkpoint.index())?;
        Ok(Some(format!("step {step} of {}", from.location())))
    }
}
