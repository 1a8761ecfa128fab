//! A checkpoint's files on this machine's disk.

use phalanx_base::{Code, Context, Result};
use phalanx_formats::bundle::{BundleIndex, BundleReader, DataSource, data_file, index_file};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The data files of one checkpoint, open.
pub(crate) struct DataFiles(Vec<File>);

impl DataSource for DataFiles {
    fn read_range(&self, shard: u32, offset: u64, len: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len as usize];
        self.read_into(shard, offset, &mut bytes).map(|()| bytes)
    }

    fn read_into(&self, shard: u32, offset: u64, target: &mut [u8]) -> Result<()> {
        self.0[shard as usize].read_exact_at(target, offset).context(Code::StorageRead, "a data file cannot be read")
    }

    fn size(&self, shard: u32) -> Result<u64> {
        let data = self.0[shard as usize].metadata().context(Code::StorageRead, "a data file cannot be read")?;
        Ok(data.len())
    }
}

/// Opens a checkpoint.
pub(crate) fn open(dir: &Path, prefix: &str) -> Result<BundleReader<DataFiles>> {
    let missing = "the checkpoint cannot be opened";
    let index = std::fs::read(dir.join(index_file(prefix))).context(Code::StorageRead, missing)?;
    let index = BundleIndex::parse(&index)?;
    let shards = index.shards();
    let files = (0..shards).map(|shard| File::open(dir.join(data_file(prefix, shard, shards))));
    let files = files.collect::<std::io::Result<Vec<File>>>().context(Code::StorageRead, missing)?;
    BundleReader::new(index, DataFiles(files))
}

/// Creates a file, or empties it.
pub(crate) fn create(path: PathBuf) -> Result<File> {
    File::create(path).context(Code::StorageWrite, "a file to measure cannot be written")
}

/// Removes a checkpoint, and waits until nothing is left to be written back: a measurement then begins with a quiet
/// disk.
pub(crate) fn clear(dir: &Path, prefix: &str) -> Result<()> {
    for file in std::fs::read_dir(dir).context(Code::StorageRead, "the folder cannot be listed")?.flatten() {
        if file.file_name().to_string_lossy().starts_with(prefix) {
            std::fs::remove_file(file.path()).context(Code::StorageWrite, "an old checkpoint cannot be removed")?;
        }
    }
    settle()
}

/// Waits until nothing is left to be written back.
pub(crate) fn settle() -> Result<()> {
    Command::new("sync").status().map(drop).context(Code::StorageWrite, "sync cannot be started")
}
