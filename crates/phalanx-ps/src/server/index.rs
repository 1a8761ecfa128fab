//! Which row of a stripe an id has.
//!
//! A table of slots, at most three quarters of them in use, each id as near behind its own slot as there was room. What a
//! library's map does not offer is to ask for a slot's memory before it is looked at: at random places of a large table
//! that is most of the time.

use super::pages::in_large_pages;
use phalanx_base::{Code, Error, Result, prefetch};

#[derive(Clone, Copy)]
struct Slot {
    id: i64,
    /// One more than the row; 0: there is none.
    row: u32,
}

const EMPTY: Slot = Slot { id: 0, row: 0 };
const FIRST: usize = 16;

#[derive(Default)]
pub(super) struct Index {
    /// A power of two of them, or none at all.
    slots: Vec<Slot>,
    used: usize,
}

impl Index {
    /// The row of an id, or the next one, which it has from now on; and whether that is so.
    ///
    /// # Errors
    /// When there are more rows than can be counted.
    pub(super) fn find_or_add(&mut self, id: i64) -> Result<(usize, bool)> {
        if 4 * (self.used + 1) > 3 * self.slots.len() {
            self.grow();
        }
        let at = self.place(id);
        let slot = &mut self.slots[at];
        if slot.row > 0 {
            return Ok((slot.row as usize - 1, false));
        }
        let row = self.used;
        let number = u32::try_from(row + 1).map_err(|_| {
            Error::new(Code::BadSetting, format!("a table has {row} rows in a sixteenth of it"))
                .because("they are counted in 32 bits")
                .help("divide the table over more servers")
        })?;
        *slot = Slot { id, row: number };
        self.used += 1;
        Ok((row, true))
    }

    /// The id's slot will be needed soon.
    pub(super) fn expect(&self, id: i64) {
        if let Some(mask) = self.slots.len().checked_sub(1) {
            let own = hash(id) as usize & mask;
            prefetch(&self.slots[own..=own]);
        }
    }

    /// Where the id is, or would be. There is always a free slot.
    fn place(&self, id: i64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = hash(id) as usize & mask;
        while self.slots[at].row > 0 && self.slots[at].id != id {
            at = (at + 1) & mask;
        }
        at
    }

    fn grow(&mut self) {
        let count = (2 * self.slots.len()).max(FIRST);
        let mut slots = Vec::with_capacity(count);
        in_large_pages(slots.spare_capacity_mut());
        slots.resize(count, EMPTY);
        let former = std::mem::replace(self, Self { slots, used: self.used });
        for slot in former.slots.into_iter().filter(|slot| slot.row > 0) {
            let at = self.place(slot.id);
            self.slots[at] = slot;
        }
    }
}

/// Another mixing than the one that chose the server, or all rows of a server would share bits. Slots are chosen by the
/// low bits, stripes by others.
pub(super) fn hash(id: i64) -> u64 {
    (id as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn ids_keep_their_rows_however_many_come() {
        let (mut index, mut known) = (Index::default(), HashMap::new());
        let mut state = 7_u64;
        for step in 0..200_000_i64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Some in a row, some at random, some again, some below zero.
            let id = match step % 4 {
                0 => step,
                1 => (state >> 20) as i64,
                2 => (state >> 50) as i64,
                _ => -step,
            };
            index.expect(id);
            let next = known.len();
            let row = *known.entry(id).or_insert(next);
            assert_eq!(index.find_or_add(id).unwrap(), (row, row == next && known.len() > next));
        }
    }

    #[test]
    fn slots_are_found_in_a_few_looks() {
        let mut index = Index::default();
        for id in 0..1_000_000 {
            index.find_or_add(id).unwrap();
        }
        let mask = index.slots.len() - 1;
        let looks = |id: i64| (index.place(id).wrapping_sub(hash(id) as usize) & mask) + 1;
        let all: usize = (0..1_000_000).map(looks).sum();
        assert!(all < 2_500_000, "{all}");
    }
}
