//! Where a reader gets a checkpoint's bytes from.

use phalanx_base::{Code, Error, Result};

/// The data files of one checkpoint. Files in memory, one `Vec` each, are a source already.
pub trait DataSource {
    /// `len` bytes of data file `shard` from `offset` on. Asked only for what lies inside of [`DataSource::size`].
    ///
    /// # Errors
    /// When they cannot be read.
    fn read_range(&self, shard: u32, offset: u64, len: u64) -> Result<Vec<u8>>;

    /// Fills `target` from data file `shard` from `offset` on. A source that can read straight into memory it is given
    /// should: here the bytes are copied.
    ///
    /// # Errors
    /// When they cannot be read.
    fn read_into(&self, shard: u32, offset: u64, target: &mut [u8]) -> Result<()> {
        let bytes = self.read_range(shard, offset, target.len() as u64)?;
        if bytes.len() != target.len() {
            return Err(missing(shard));
        }
        target.copy_from_slice(&bytes);
        Ok(())
    }

    /// How many bytes data file `shard` has.
    ///
    /// # Errors
    /// When there is no such file.
    fn size(&self, shard: u32) -> Result<u64>;
}

impl DataSource for Vec<Vec<u8>> {
    fn read_range(&self, shard: u32, offset: u64, len: u64) -> Result<Vec<u8>> {
        range(self, shard, offset, len).map(<[u8]>::to_vec)
    }

    fn read_into(&self, shard: u32, offset: u64, target: &mut [u8]) -> Result<()> {
        target.copy_from_slice(range(self, shard, offset, target.len() as u64)?);
        Ok(())
    }

    fn size(&self, shard: u32) -> Result<u64> {
        self.get(shard as usize).map(|file| file.len() as u64).ok_or_else(|| missing(shard))
    }
}

impl<S: DataSource + ?Sized> DataSource for &S {
    fn read_range(&self, shard: u32, offset: u64, len: u64) -> Result<Vec<u8>> {
        (**self).read_range(shard, offset, len)
    }

    fn read_into(&self, shard: u32, offset: u64, target: &mut [u8]) -> Result<()> {
        (**self).read_into(shard, offset, target)
    }

    fn size(&self, shard: u32) -> Result<u64> {
        (**self).size(shard)
    }
}

fn range(files: &[Vec<u8>], shard: u32, offset: u64, len: u64) -> Result<&[u8]> {
    let start = usize::try_from(offset).ok();
    let end = offset.checked_add(len).and_then(|end| usize::try_from(end).ok());
    let range = start.zip(end).and_then(|(start, end)| files.get(shard as usize)?.get(start..end));
    range.ok_or_else(|| missing(shard))
}

fn missing(shard: u32) -> Error {
    Error::new(Code::DataMissing, format!("shard {shard} of the checkpoint is missing or too short"))
}
