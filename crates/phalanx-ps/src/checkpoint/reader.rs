//! A checkpoint to restore from.

use super::{Files, GLOBAL_STEP};
use phalanx_base::{Code, Error, Result};
use phalanx_formats::bundle::{BundleIndex, BundleReader, Dtype, data_file, index_file};
use phalanx_storage::Dir;

/// The largest index in bytes.
const LARGEST_INDEX: u64 = 1 << 30;

/// An open checkpoint. Its index was checked, and every data file has the size that the index requires.
pub struct Checkpoint {
    name: String,
    pub(super) reader: BundleReader<Files>,
    pub(super) files: Files,
}

impl Checkpoint {
    /// Opens the checkpoint `name` of `dir`, such as `model.ckpt-300`.
    ///
    /// # Errors
    /// When it is not there, or damaged as far as its index and the sizes of its files show.
    pub fn open(dir: &Dir, name: &str) -> Result<Self> {
        let index = index_file(name);
        if dir.size(&index)?.is_none() {
            return Err(Error::new(Code::CheckpointMissing, format!("there is no checkpoint {name:?}"))
                .at(dir.location())
                .because(format!("{index} is not there")));
        }
        let index = BundleIndex::parse(&dir.read(&index, LARGEST_INDEX)?).map_err(|error| damaged(name, error))?;
        let shards = index.shards();
        let files = (0..shards).map(|shard| data_file(name, shard, shards));
        let files = Files::open(dir, files).map_err(|error| damaged(name, error))?;
        let reader = BundleReader::new(index, files.clone()).map_err(|error| damaged(name, error))?;
        Ok(Self { name: name.to_owned(), reader, files })
    }

    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of bytes of its data files that were read through this handle.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.files.bytes_read()
    }

    /// Returns the index of its tensors.
    #[must_use]
    pub fn index(&self) -> &BundleIndex {
        self.reader.index()
    }

    /// Returns the reader of its tensors.
    #[must_use]
    pub fn tensors(&self) -> &BundleReader<Files> {
        &self.reader
    }

    /// Returns the committed steps that it contains; 0 if it has no `global_step`.
    ///
    /// # Errors
    /// When `global_step` cannot be read.
    pub fn global_step(&self) -> Result<u64> {
        let Some(info) = self.index().tensors().get(GLOBAL_STEP) else { return Ok(0) };
        let tensor = self.reader.read(GLOBAL_STEP).map_err(|error| damaged(&self.name, error))?;
        let step = match info.dtype {
            Dtype::I32 => tensor.i32s()?.first().map(|&step| i64::from(step)),
            _ => tensor.i64s()?.first().copied(),
        };
        let wrong = || damaged(&self.name, Error::new(Code::DataFormat, format!("{GLOBAL_STEP} is {step:?}")));
        step.and_then(|step| u64::try_from(step).ok()).ok_or_else(wrong)
    }
}

pub(super) fn damaged(name: &str, error: Error) -> Error {
    Error::new(Code::CheckpointDamaged, format!("checkpoint {name:?} cannot be used"))
        .because(error)
        .help("name an older one in the file `checkpoint`, or remove that file to start over")
}
