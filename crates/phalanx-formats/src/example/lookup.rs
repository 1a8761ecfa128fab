//! Finds the column of a key.

use crate::fingerprint::fingerprint64;

/// Key to column, hashed once per key and never more than half full. Only the wanted names are in it, so no data can
/// make it slow.
pub(super) struct Lookup {
    slots: Vec<Option<(u64, u32)>>,
}

impl Lookup {
    /// A table of names; `Err` is the position of one that was there before.
    pub(super) fn new<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> Result<Self, usize> {
        let mut table = Self { slots: vec![None; (names.len() * 2).next_power_of_two().max(2)] };
        let mut seen: Vec<&str> = Vec::with_capacity(names.len());
        for (column, name) in names.enumerate() {
            if table.find(name.as_bytes(), |at| seen[at]).is_some() {
                return Err(column);
            }
            let hash = fingerprint64(name.as_bytes());
            let mask = table.slots.len() - 1;
            let mut slot = hash as usize & mask;
            while table.slots[slot].is_some() {
                slot = (slot + 1) & mask;
            }
            table.slots[slot] = Some((hash, column as u32));
            seen.push(name);
        }
        Ok(table)
    }

    /// The column of `key`, whose name `name_of` tells.
    #[inline]
    pub(super) fn find<'a>(&self, key: &[u8], name_of: impl Fn(usize) -> &'a str) -> Option<usize> {
        let hash = fingerprint64(key);
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        while let Some((found, column)) = self.slots[slot] {
            if found == hash && name_of(column as usize).as_bytes() == key {
                return Some(column as usize);
            }
            slot = (slot + 1) & mask;
        }
        None
    }
}
