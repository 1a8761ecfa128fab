//! Reads the sorted table that a checkpoint's index is.

use super::block::for_each_entry;
use super::cursor::Cursor;
use super::malformed;
use super::table_writer::{FOOTER, MAGIC};
use phalanx_base::Result;
use std::borrow::Cow;

/// The type byte and the checksum after a block.
const TRAILER: usize = 5;

/// A sorted table in memory. Checksums are checked as its blocks are read.
pub struct TableReader<'a> {
    file: &'a [u8],
    index: Cow<'a, [u8]>,
}

/// Where a block is.
#[derive(Clone, Copy)]
struct Handle {
    offset: usize,
    size: usize,
}

impl<'a> TableReader<'a> {
    /// Reads the footer and the table's own index.
    ///
    /// # Errors
    /// When `file` is not such a table.
    ///
    /// ```
    /// use phalanx_formats::bundle::TableReader;
    /// assert!(TableReader::open(b"not a table").is_err());
    /// ```
    pub fn open(file: &'a [u8]) -> Result<Self> {
        let footer = file.len().checked_sub(FOOTER).map(|at| &file[at..]);
        let footer = footer.ok_or_else(|| malformed(format!("{} bytes are too few for an index", file.len())))?;
        let Some(handles) = footer.strip_suffix(&MAGIC) else {
            return Err(malformed("the index does not end in the bytes that every index ends in"));
        };
        let mut handles = Cursor(handles);
        let mut next = || handle(&mut handles).ok_or_else(|| malformed("the index's footer has no handles"));
        let (meta, index) = (next()?, next()?);
        for_each_entry(&block(file, meta)?, |_, _| Ok(()))?;
        Ok(Self { file, index: block(file, index)? })
    }

    /// Calls `each` with every key and its value, in ascending order. Ends with the first error.
    ///
    /// # Errors
    /// When a block is damaged, keys do not ascend, or `each` fails.
    pub fn for_each(&self, mut each: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        // The last key seen, or the separator after its block, which is not less.
        let mut last: Option<Vec<u8>> = None;
        for_each_entry(&self.index, |separator, value| {
            let handle = handle(&mut Cursor(value)).ok_or_else(|| malformed("a block's handle is cut off"))?;
            let mut in_block = false;
            for_each_entry(&block(self.file, handle)?, |key, value| {
                // A separator may equal the last key before it, never the first one after it.
                if last.as_deref().is_some_and(|last| last >= key) {
                    return Err(malformed(format!("key \"{}\" is out of order", key.escape_ascii())));
                }
                keep(&mut last, key);
                in_block = true;
                each(key, value)
            })?;
            if last.as_deref().is_some_and(|last| if in_block { last > separator } else { last >= separator }) {
                return Err(malformed("a block's separator is out of order"));
            }
            keep(&mut last, separator);
            Ok(())
        })
    }
}

/// Copies `key` into `last`, reusing its memory.
fn keep(last: &mut Option<Vec<u8>>, key: &[u8]) {
    let last = last.get_or_insert_default();
    last.clear();
    last.extend_from_slice(key);
}

fn handle(bytes: &mut Cursor<'_>) -> Option<Handle> {
    Some(Handle { offset: bytes.size()?, size: bytes.size()? })
}

/// A block's content, after its checksum was found right.
fn block(file: &[u8], handle: Handle) -> Result<Cow<'_, [u8]>> {
    let Handle { offset, size } = handle;
    let end = size.checked_add(TRAILER).and_then(|all| offset.checked_add(all));
    let found = end.filter(|&end| end <= file.len() - FOOTER).map(|end| &file[offset..end]);
    let found = found.ok_or_else(|| malformed(format!("a block at {offset} of {size} bytes is not in the index")))?;
    let (covered, stored) = found.split_at(size + 1);
    let stored = Cursor(stored).u32().unwrap_or_default();
    if crate::checksum::masked(covered) != stored {
        return Err(malformed(format!("the checksum of the index's block at {offset} is wrong")));
    }
    let content = &covered[..size];
    match covered[size] {
        0 => Ok(Cow::Borrowed(content)),
        1 => {
            let original = decompress(content);
            original.map(Cow::Owned).ok_or_else(|| malformed(format!("the block at {offset} is not valid Snappy data")))
        }
        other => Err(malformed(format!("the block at {offset} has the unknown type {other}"))),
    }
}

/// Decompresses a Snappy block: TensorFlow never compresses an index, but its reader accepts it. Returns `None` for
/// damaged blocks and for those that promise more than 64 MiB or more than Snappy's densest encoding (three bytes for 64).
fn decompress(block: &[u8]) -> Option<Vec<u8>> {
    let length = snap::raw::decompress_len(block).ok()?;
    if length > 64 << 20 || length > block.len().saturating_mul(22) {
        return None;
    }
    snap::raw::Decoder::new().decompress_vec(block).ok()
}
