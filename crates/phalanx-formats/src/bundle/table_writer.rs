//! Writes the sorted table that a checkpoint's index is.

use super::block::{BlockBuilder, MAX_KEY};
use crate::wire::put_varint;
use phalanx_base::{Code, Error, Result};

/// A block is closed when it has reached this size.
const BLOCK_TARGET: usize = 262_144;
/// One of this many keys is written in full.
const RESTART_INTERVAL: usize = 16;
/// The last bytes of every table.
pub(super) const MAGIC: [u8; 8] = [0x57, 0xfb, 0x80, 0x8b, 0x24, 0x75, 0x47, 0xdb];
/// Two handles, padding, and the magic.
pub(super) const FOOTER: usize = 48;

/// Writes keys and values in ascending order of the keys.
///
/// ```
/// use phalanx_formats::bundle::{TableReader, TableWriter};
/// let mut writer = TableWriter::new();
/// writer.add(b"", b"header").unwrap();
/// writer.add(b"bias", b"1").unwrap();
/// assert!(writer.add(b"bias", b"2").is_err());
/// let bytes = writer.finish();
/// let mut keys = Vec::new();
/// TableReader::open(&bytes).unwrap().for_each(|key, _| Ok(keys.push(key.to_vec()))).unwrap();
/// assert_eq!(keys, [b"".to_vec(), b"bias".to_vec()]);
/// ```
pub struct TableWriter {
    file: Vec<u8>,
    block: BlockBuilder,
    index: BlockBuilder,
    last: Option<Vec<u8>>,
    /// The handle of a finished block that the index does not have yet: its separator depends on the key to come.
    pending: Option<Vec<u8>>,
}

impl Default for TableWriter {
    fn default() -> Self {
        Self::new()
    }
}

impl TableWriter {
    /// A table without keys.
    #[must_use]
    pub fn new() -> Self {
        let (block, index) = (BlockBuilder::new(RESTART_INTERVAL), BlockBuilder::new(1));
        Self { file: Vec::new(), block, index, last: None, pending: None }
    }

    /// Adds a key, which must be greater than the one before, bytewise.
    ///
    /// # Errors
    /// When it is not, or is too long.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if key.len() > MAX_KEY {
            return Err(Error::new(Code::DataFormat, format!("a key of {} bytes is too long", key.len())));
        }
        if let Some(last) = self.last.as_deref().filter(|&last| last >= key) {
            let (last, key) = (last.escape_ascii(), key.escape_ascii());
            return Err(Error::new(Code::DataFormat, format!("key \"{key}\" comes after \"{last}\"")));
        }
        if let Some(handle) = self.pending.take() {
            self.index.add(&separator(self.last.as_deref().unwrap_or_default(), key), &handle);
        }
        self.block.add(key, value);
        self.last = Some(key.to_vec());
        if self.block.len() >= BLOCK_TARGET {
            self.close_block();
        }
        Ok(())
    }

    /// The table's bytes.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        if !self.block.is_empty() {
            self.close_block();
        }
        let mut footer = put_block(&mut self.file, BlockBuilder::new(RESTART_INTERVAL));
        if let Some(handle) = self.pending.take() {
            self.index.add(&successor(self.last.as_deref().unwrap_or_default()), &handle);
        }
        footer.extend(put_block(&mut self.file, self.index));
        footer.resize(FOOTER - MAGIC.len(), 0);
        self.file.extend(footer);
        self.file.extend(MAGIC);
        self.file
    }

    fn close_block(&mut self) {
        let block = std::mem::replace(&mut self.block, BlockBuilder::new(RESTART_INTERVAL));
        self.pending = Some(put_block(&mut self.file, block));
    }
}

/// Appends a block with its type and checksum; returns its handle.
fn put_block(file: &mut Vec<u8>, block: BlockBuilder) -> Vec<u8> {
    let (offset, mut block) = (file.len(), block.finish());
    let mut handle = Vec::new();
    put_varint(offset as u64, &mut handle);
    put_varint(block.len() as u64, &mut handle);
    block.push(0);
    file.extend_from_slice(&block);
    file.extend(crate::checksum::masked(&block).to_le_bytes());
    handle
}

/// A short key that is not less than `last` and less than `next`.
fn separator(last: &[u8], next: &[u8]) -> Vec<u8> {
    let common = last.iter().zip(next).take_while(|(a, b)| a == b).count();
    match (last.get(common), next.get(common)) {
        (Some(&a), Some(&b)) if a < 0xff && a + 1 < b => [&last[..common], &[a + 1]].concat(),
        _ => last.to_vec(),
    }
}

/// A short key that is not less than `last`.
fn successor(last: &[u8]) -> Vec<u8> {
    match last.iter().position(|&byte| byte != 0xff) {
        Some(at) => [&last[..at], &[last[at] + 1]].concat(),
        None => last.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_lie_between() {
        for (last, next) in [("abc", "abz"), ("abc", "abd"), ("ab", "abc"), ("a\u{7f}", "b"), ("", "x")] {
            let between = separator(last.as_bytes(), next.as_bytes());
            assert!(*last.as_bytes() <= *between && between.as_slice() < next.as_bytes(), "{last} {next}");
        }
        assert_eq!(separator(b"abc", b"abz"), b"abd");
        assert_eq!(successor(b"\xff\xffab"), b"\xff\xffb");
        assert_eq!(successor(b"\xff"), b"\xff");
    }
}
