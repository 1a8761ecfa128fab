//! The checkpoints of a run directory, and the file `checkpoint` that names them.

use super::Retention;
use phalanx_base::{Code, Error, Result};
use phalanx_formats::bundle::{BundleIndex, CheckpointState, data_file, index_file};
use phalanx_storage::Dir;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The file that names the newest checkpoint, and the most bytes that are read of it.
const STATE: (&str, u64) = ("checkpoint", 16 << 20);

/// Files that a crashed writer left are removed when they are older than this; younger ones may be in use.
const LEFT_OVER: Duration = Duration::from_secs(120);

/// The checkpoints of a directory, under TensorFlow's names: `model.ckpt-N` at step N.
pub struct CheckpointStore {
    dir: Dir,
    basename: String,
    retention: Retention,
    state: CheckpointState,
    warning: Option<String>,
}

impl CheckpointStore {
    /// Opens the checkpoints of `dir` with the name `basename`, such as `model.ckpt`. As in TensorFlow, those count that the
    /// file `checkpoint` names; without the file, there are none. Where it cannot be read, those that are found in the
    /// directory count, and [`Self::warning`] explains it. Nothing is written: a missing directory has no checkpoints.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn open(dir: &Dir, basename: &str, retention: Retention) -> Result<Self> {
        let (state, warning) = (CheckpointState::default(), None);
        let mut store = Self { dir: dir.clone(), basename: basename.to_owned(), retention, state, warning };
        match dir.try_read(STATE.0, STATE.1)?.map(|text| CheckpointState::parse(&text)) {
            Some(Ok(state)) => store.state = state,
            Some(Err(error)) => {
                store.state = store.found()?;
                store.warning = Some(format!("{error}; going by the checkpoints that are there"));
            }
            None => {}
        }
        Ok(store)
    }

    /// Returns what is wrong with the file `checkpoint`, if something is.
    #[must_use]
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// Returns the directory.
    #[must_use]
    pub fn dir(&self) -> &Dir {
        &self.dir
    }

    /// Returns the names of the checkpoints, newest first.
    #[must_use]
    pub fn newest_first(&self) -> Vec<String> {
        let mut names: Vec<String> = self.state.latest.iter().map(|path| base(path).to_owned()).collect();
        for path in self.state.all.iter().rev() {
            if !names.iter().any(|name| name == base(path)) {
                names.push(base(path).to_owned());
            }
        }
        names
    }

    /// Returns the name of the checkpoint at a step.
    #[must_use]
    pub fn name(&self, step: u64) -> String {
        format!("{}-{step}", self.basename)
    }

    /// Publishes a checkpoint whose data files are staged under the names `staged`, as the newest. Then deletes those that are
    /// not to be kept, and returns the errors of that.
    ///
    /// # Errors
    /// When something cannot be written. The checkpoint then does not exist, and those before it do.
    pub fn publish(&mut self, name: &str, staged: &[String], index: &BundleIndex) -> Result<Vec<Error>> {
        // An old index of that name would not fit the new data files.
        self.dir.remove(&index_file(name))?;
        let published = self.publish_files(name, staged, index);
        if published.is_err() {
            // Without an index the files are no checkpoint; nothing else removes them before the chief is restarted.
            let _ = self.delete(name);
        }
        let deleted = published?;
        Ok(deleted.iter().filter_map(|old| self.delete(base(old)).err()).collect())
    }

    /// Returns the checkpoints that are not to be kept any more.
    fn publish_files(&mut self, name: &str, staged: &[String], index: &BundleIndex) -> Result<Vec<String>> {
        let shards = staged.len() as u32;
        for (shard, staged) in (0..).zip(staged) {
            self.dir.publish(staged, &data_file(name, shard, shards))?;
        }
        self.dir.write(&index_file(name), &index.to_bytes()?)?;
        let mut state = self.state.clone();
        let deleted = self.retention.admit(&mut state, name, now());
        self.dir.write(STATE.0, state.to_string().as_bytes())?;
        self.state = state;
        Ok(deleted)
    }

    /// Forgets a checkpoint; its files stay until one of the same name is published.
    pub(crate) fn forget_one(&mut self, name: &str) {
        let CheckpointState { latest, all, timestamps, .. } = &mut self.state;
        while let Some(at) = all.iter().position(|path| base(path) == name) {
            all.remove(at);
            // There may be none.
            if at < timestamps.len() {
                timestamps.remove(at);
            }
        }
        if latest.as_deref().is_some_and(|path| base(path) == name) {
            *latest = all.last().cloned();
        }
    }

    /// Forgets all checkpoints, after the directory was deleted.
    pub(crate) fn forget(&mut self) {
        self.state = CheckpointState::default();
    }

    /// Removes every checkpoint, and the file that names them.
    ///
    /// # Errors
    /// When something cannot be removed.
    pub fn clear(&mut self) -> Result<()> {
        let names = self.newest_first();
        // The file goes first: without it there are no checkpoints.
        self.dir.remove(STATE.0)?;
        self.state = CheckpointState::default();
        names.iter().try_for_each(|name| self.delete(name))
    }

    /// Removes the leftovers of crashed writers: files under temporary names, and data files without an index.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn sweep(&self) -> Result<()> {
        self.dir.sweep_staged(LEFT_OVER)?;
        for entry in self.dir.list(&format!("{}-", self.basename))? {
            let Some((name, _)) = entry.name.split_once(".data-") else { continue };
            let old = entry.modified.elapsed().is_ok_and(|age| age > LEFT_OVER);
            if old && self.dir.size(&index_file(name))?.is_none() {
                self.dir.remove(&entry.name)?;
            }
        }
        Ok(())
    }

    /// Deletes a checkpoint. The index goes first: without it the rest is no checkpoint.
    fn delete(&self, name: &str) -> Result<()> {
        self.dir.remove(&index_file(name))?;
        for entry in self.dir.list(&format!("{name}."))? {
            let rest = &entry.name[name.len()..];
            if rest.starts_with(".data-") || rest == ".meta" {
                self.dir.remove(&entry.name)?;
            }
        }
        Ok(())
    }

    /// Returns the checkpoints found in the directory, ordered by the steps in their names.
    fn found(&self) -> Result<CheckpointState> {
        let mut steps: Vec<u64> = Vec::new();
        for entry in self.dir.list(&format!("{}-", self.basename))? {
            let name = entry.name.strip_suffix(".index").and_then(|name| name.strip_prefix(&self.basename));
            steps.extend(name.and_then(|rest| rest.strip_prefix('-')?.parse::<u64>().ok()));
        }
        steps.sort_unstable();
        let all: Vec<String> = steps.into_iter().map(|step| self.name(step)).collect();
        Ok(CheckpointState { latest: all.last().cloned(), all, ..CheckpointState::default() })
    }

    /// An error for a directory without a usable checkpoint.
    pub(crate) fn nothing_usable(&self, last: Error) -> Error {
        Error::new(Code::CheckpointDamaged, "none of the checkpoints can be used")
            .at(self.dir.location())
            .because(last)
            .help("remove the file `checkpoint` to start over, or use another model_dir")
    }
}

/// Returns the file name: TensorFlow may write full paths into `checkpoint`.
fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

pub(crate) fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}
