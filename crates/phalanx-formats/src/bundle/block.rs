//! A block of the sorted table: keys that share their beginnings, and the places where they do not.

use super::cursor::Cursor;
use super::malformed;
use crate::wire::put_varint;
use phalanx_base::Result;

/// No key is longer than this; a name of a tensor is not a text.
pub(super) const MAX_KEY: usize = 64 << 10;

/// Collects one block.
pub(super) struct BlockBuilder {
    bytes: Vec<u8>,
    restarts: Vec<u32>,
    /// How many keys may share with their neighbour before one is written in full.
    interval: usize,
    since_restart: usize,
    last: Vec<u8>,
}

impl BlockBuilder {
    pub(super) fn new(interval: usize) -> Self {
        Self { bytes: Vec::new(), restarts: vec![0], interval, since_restart: 0, last: Vec::new() }
    }

    pub(super) fn add(&mut self, key: &[u8], value: &[u8]) {
        let mut shared = 0;
        if self.since_restart < self.interval {
            shared = key.iter().zip(&self.last).take_while(|(a, b)| a == b).count();
        } else {
            self.restarts.push(self.bytes.len() as u32);
            self.since_restart = 0;
        }
        for number in [shared, key.len() - shared, value.len()] {
            put_varint(number as u64, &mut self.bytes);
        }
        self.bytes.extend_from_slice(&key[shared..]);
        self.bytes.extend_from_slice(value);
        self.last.truncate(shared);
        self.last.extend_from_slice(&key[shared..]);
        self.since_restart += 1;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// How large the block is now.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() + 4 * (self.restarts.len() + 1)
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        for &restart in &self.restarts {
            self.bytes.extend(restart.to_le_bytes());
        }
        self.bytes.extend((self.restarts.len() as u32).to_le_bytes());
        self.bytes
    }
}

/// Calls `each` with the keys and values of a block, in their order. Keys are not kept: a few bytes of a block can
/// stand for a long key, so keeping them all is for the caller to limit.
pub(super) fn for_each_entry(block: &[u8], mut each: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
    let mut entries = Cursor(without_restarts(block).ok_or_else(|| malformed("a block has no list of restarts"))?);
    let mut key = Vec::new();
    while !entries.0.is_empty() {
        let value = next(&mut entries, &mut key).ok_or_else(|| malformed("an entry reaches beyond its block"))?;
        each(&key, value)?;
    }
    Ok(())
}

/// The entries of a block; `None` if the list of restarts after them makes no sense.
fn without_restarts(block: &[u8]) -> Option<&[u8]> {
    let (rest, count) = block.split_last_chunk()?;
    let length = usize::try_from(u32::from_le_bytes(*count)).ok()?.checked_mul(4)?;
    let (entries, restarts) = rest.split_at(rest.len().checked_sub(length)?);
    let mut places = restarts.as_chunks::<4>().0.iter().map(|four| u32::from_le_bytes(*four) as usize);
    let mut last = places.next().filter(|&first| first == 0)?;
    let ascend = places.all(|place| place > std::mem::replace(&mut last, place) && place < entries.len());
    ascend.then_some(entries)
}

/// The next value; the key becomes the next key.
fn next<'a>(entries: &mut Cursor<'a>, key: &mut Vec<u8>) -> Option<&'a [u8]> {
    let (shared, unshared, length) = (entries.size()?, entries.size()?, entries.size()?);
    if shared > key.len() || unshared > MAX_KEY - shared.min(MAX_KEY) {
        return None;
    }
    key.truncate(shared);
    key.extend_from_slice(entries.take(unshared)?);
    entries.take(length)
}
