//! A checkpoint's data files in a run directory.

use phalanx_base::{Code, Error, Result};
use phalanx_formats::bundle::DataSource;
use phalanx_storage::{Dir, ReadFile};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The open data files of one checkpoint.
#[derive(Clone)]
pub struct Files {
    files: Vec<ReadFile>,
    /// The number of bytes read by all clones.
    read: Arc<AtomicU64>,
}

impl Files {
    /// Opens the files with these names, one for each shard.
    ///
    /// # Errors
    /// When one is missing.
    pub fn open(dir: &Dir, names: impl IntoIterator<Item = String>) -> Result<Self> {
        let files = names.into_iter().map(|name| dir.open_read(&name)).collect::<Result<_>>()?;
        Ok(Self { files, read: Arc::default() })
    }

    pub(super) fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    pub(super) fn read(&self, shard: u32, offset: u64, into: &mut [u8]) -> Result<()> {
        self.read.fetch_add(into.len() as u64, Ordering::Relaxed);
        self.file(shard)?.read_exact_at(offset, into)
    }

    fn file(&self, shard: u32) -> Result<&ReadFile> {
        let missing = || Error::new(Code::CheckpointDamaged, format!("data file {shard} is missing"));
        self.files.get(shard as usize).ok_or_else(missing)
    }
}

impl DataSource for Files {
    fn read_range(&self, shard: u32, offset: u64, len: u64) -> Result<Vec<u8>> {
        self.read.fetch_add(len, Ordering::Relaxed);
        self.file(shard)?.read_range(offset, len)
    }

    fn read_into(&self, shard: u32, offset: u64, target: &mut [u8]) -> Result<()> {
        self.read(shard, offset, target)
    }

    fn size(&self, shard: u32) -> Result<u64> {
        self.file(shard)?.size()
    }
}
