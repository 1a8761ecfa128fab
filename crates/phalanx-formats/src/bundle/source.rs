//! Where a reader gets a checkpoint's bytes from.

use phalanx_base::{Code, Error, Result};

/// The data files of one checkpoint. Files in memory, one `Vec` each, are a source already.
pub trait DataSource {
    /// `len` bytes of data file `shard` from `offset` on. Asked only for what lies inside of [`DataSource::size`].
    ///
    /// # Errors
    /// When they cannot be read.
    fn read_range(&self, shard: u32, offset: u64, len: u64) -> Result<Vec<u8>>;

    /// How many bytes data file `shard` has.
    ///
    /// # Errors
    /// When there is no such file.
    fn size(&self, shard: u32) -> Result<u64>;
}

impl DataSource for Vec<Vec<u8>> {
    fn read_range(&self, shard: u32, offset: u64, len: u64) -> Result<Vec<u8>> {
        let start = usize::try_from(offset).ok();
        let end = offset.checked_add(len).and_then(|end| usize::try_from(end).ok());
        let range = start.zip(end).and_then(|(start, end)| self.get(shard as usize)?.get(start..end));
        range.map(<[u8]>::to_vec).ok_or_else(|| missing(shard))
    }

    fn size(&self, shard: u32) -> Result<u64> {
        self.get(shard as usize).map(|file| file.len() as u64).ok_or_else(|| missing(shard))
    }
}

impl<S: DataSource + ?Sized> DataSource for &S {
    fn read_range(&self, shard: u32, offset: u64, len: u64) -> Result<Vec<u8>> {
        (**self).read_range(shard, offset, len)
    }

    fn size(&self, shard: u32) -> Result<u64> {
        (**self).size(shard)
    }
}

fn missing(shard: u32) -> Error {
    Error::new(Code::DataMissing, format!("shard {shard} of the checkpoint is missing or too short"))
}
