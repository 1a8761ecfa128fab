//! Which row of a stripe an id has.
//!
//! An id may be in either of two places, each a line of memory with eight slots. A slot holds the row's number and as much
//! of the id's hash as its place does not tell: the hash can be turned back, so that nothing is lost, and since a larger
//! index has more places and higher row numbers, both always fit into eight bytes. Nine of ten ids are in the first of
//! their places, whose memory can be asked for before it is looked at: at random places of a large table that is most of
//! the time. A library's map offers neither.

use super::pages::in_large_pages;
use phalanx_base::prefetch;
use std::collections::HashMap;

/// Slots in a place.
const PLACE: usize = 8;
/// How many stripes a table has.
pub(super) const STRIPES: usize = 16;
/// Bits of a hash; those above them say which stripe an id belongs to.
const HASH_BITS: u32 = u64::BITS - STRIPES.ilog2();
/// How many ids may move over to make room for one.
const MOVES: usize = 64;

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Place([u64; PLACE]);

impl Place {
    const EMPTY: Self = Self([0; PLACE]);
}

/// An id's hash, and one more than its row.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Entry {
    hash: u64,
    number: u64,
}

#[derive(Default)]
pub(super) struct Index {
    /// A power of two of them, from two up; or none at all.
    places: Vec<Place>,
    used: usize,
    /// What found no room. Nothing, unless somebody chose ids to that end.
    strays: HashMap<u64, u64>,
}

impl Index {
    /// The id with this part of a hash will be looked for soon.
    pub(super) fn expect(&self, hash: u64) {
        if let Some(last) = self.places.len().checked_sub(1) {
            prefetch(&self.places[hash as usize & last].0);
        }
    }

    /// The row of the id with this part of a hash.
    pub(super) fn find(&self, hash: u64) -> Option<usize> {
        if self.places.is_empty() {
            return None;
        }
        for second in [false, true] {
            let (place, wanted) = self.slot(Entry { hash, number: 0 }, second);
            let (slots, numbers) = (&self.places[place].0, 1 << self.number_bits());
            // At most one slot has the id, and an empty one adds nothing. Without a branch that would have to be guessed.
            let number = slots.iter().fold(0, |found, slot| {
                let number = slot ^ wanted;
                if number < numbers { found | number } else { found }
            });
            if number > 0 {
                return Some(number as usize - 1);
            }
            // No id goes on to its second place, or astray, before the one before is full.
            if slots[PLACE - 1] == 0 {
                return None;
            }
        }
        self.strays.get(&hash).map(|&number| number as usize - 1)
    }

    /// Gives the next row to the id with this part of a hash, which has none.
    pub(super) fn add(&mut self, hash: u64) -> usize {
        if 4 * (self.used + 1) > 3 * PLACE * self.places.len() {
            self.grow();
        }
        let row = self.used;
        self.used += 1;
        self.put(Entry { hash, number: self.used as u64 });
        row
    }

    fn put(&mut self, mut entry: Entry) {
        for moves in 0..MOVES {
            for second in [false, true] {
                let (place, slot) = self.slot(entry, second);
                if let Some(free) = self.places[place].0.iter_mut().find(|other| **other == 0) {
                    *free = slot;
                    return;
                }
            }
            // Both are full. It takes the slot of another, which has a second place too.
            let (place, slot) = self.slot(entry, true);
            let other = std::mem::replace(&mut self.places[place].0[moves % PLACE], slot);
            entry = self.entry(place, other);
        }
        self.strays.insert(entry.hash, entry.number);
    }

    /// Where an entry is kept in its first or second place, and as what.
    fn slot(&self, entry: Entry, second: bool) -> (usize, u64) {
        let last = self.places.len() as u64 - 1;
        let (home, rest) = (entry.hash & last, entry.hash >> self.place_bits());
        let place = if second { home ^ self.way(rest) } else { home };
        (place as usize, ((rest << 1 | u64::from(second)) << self.number_bits()) | entry.number)
    }

    /// What is kept there.
    fn entry(&self, place: usize, slot: u64) -> Entry {
        let (key, number) = (slot >> self.number_bits(), slot & ((1 << self.number_bits()) - 1));
        let rest = key >> 1;
        let home = if key & 1 == 1 { place as u64 ^ self.way(rest) } else { place as u64 };
        Entry { hash: rest << self.place_bits() | home, number }
    }

    /// Between an id's two places.
    fn way(&self, rest: u64) -> u64 {
        rest.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - self.place_bits())
    }

    fn place_bits(&self) -> u32 {
        self.places.len().ilog2()
    }

    /// There are fewer rows than slots.
    fn number_bits(&self) -> u32 {
        self.place_bits() + PLACE.ilog2()
    }

    fn grow(&mut self) {
        let count = (2 * self.places.len()).max(2);
        let mut places = Vec::with_capacity(count);
        in_large_pages(places.spare_capacity_mut());
        places.resize(count, Place::EMPTY);
        let former = std::mem::replace(self, Self { places, used: self.used, strays: HashMap::new() });
        for (at, place) in former.places.iter().enumerate() {
            for &slot in place.0.iter().filter(|&&slot| slot != 0) {
                self.put(former.entry(at, slot));
            }
        }
        former.strays.into_iter().for_each(|(hash, number)| self.put(Entry { hash, number }));
    }
}

/// Another mixing than the one that chose the server, or all rows of a server would share bits. Every id has another.
pub(super) fn hash(id: i64) -> u64 {
    (id as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

/// Which stripe an id belongs to.
pub(super) fn stripe_of(id: i64) -> usize {
    (hash(id) >> HASH_BITS) as usize
}

/// The part of an id's hash that ids of one stripe differ in.
pub(super) fn own_part(id: i64) -> u64 {
    hash(id) & ((1 << HASH_BITS) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ids of one stripe, as an index has them.
    fn of_one_stripe(ids: impl Iterator<Item = i64>) -> impl Iterator<Item = i64> {
        ids.filter(|&id| stripe_of(id) == 3)
    }

    #[test]
    fn ids_keep_their_rows_however_many_come() {
        let (mut index, mut known) = (Index::default(), HashMap::new());
        let mut state = 7_u64;
        // Some in a row, some at random, some again, some below zero.
        let ids = (0..3_000_000_i64).map(|step| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            match step % 4 {
                0 => step,
                1 => (state >> 20) as i64,
                2 => (state >> 50) as i64,
                _ => -step,
            }
        });
        for id in of_one_stripe(ids) {
            let hash = own_part(id);
            index.expect(hash);
            assert_eq!(index.find(hash), known.get(&id).copied());
            if !known.contains_key(&id) {
                assert_eq!(index.add(hash), known.len());
                known.insert(id, known.len());
            }
        }
        assert!(known.len() > 100_000 && index.strays.is_empty());
    }

    #[test]
    fn most_ids_are_where_they_are_looked_for_first() {
        let mut index = Index::default();
        let ids: Vec<i64> = of_one_stripe(0..20_000_000).take(3 * (1 << 18)).collect();
        ids.iter().for_each(|&id| _ = index.add(own_part(id)));
        assert_eq!((index.places.len(), ids.len()), (1 << 17, 3 << 18), "as full as it gets");
        let second = |place: &Place| place.0.iter().filter(|&&slot| slot >> index.number_bits() & 1 == 1).count();
        let second: usize = index.places.iter().map(second).sum();
        assert!(second < ids.len() / 10, "{second} of {}", ids.len());
    }

    #[test]
    fn what_is_kept_can_be_turned_back() {
        let mut index = Index::default();
        for _ in 0..20 {
            index.grow();
            for number in [1, 2 * index.places.len() as u64] {
                for hash in [0, 1, (1 << HASH_BITS) - 1, 0x123_4567_89ab_cdef] {
                    let entry = Entry { hash, number };
                    for second in [false, true] {
                        let (place, slot) = index.slot(entry, second);
                        assert_eq!(index.entry(place, slot), entry);
                    }
                }
            }
        }
    }

    #[test]
    fn ids_that_were_chosen_to_collide_are_found_too() {
        let mut index = Index::default();
        (0..4).for_each(|_| index.grow());
        let same = |&hash: &u64| index.slot(Entry { hash, number: 0 }, true).0 == 5;
        let hashes: Vec<u64> = (0..).map(|rest| rest << index.place_bits() | 2).filter(same).take(40).collect();
        for (&hash, number) in hashes.iter().zip(1..) {
            assert_eq!(index.find(hash), None);
            index.used += 1;
            index.put(Entry { hash, number });
        }
        assert_eq!(index.strays.len(), 40 - 2 * PLACE);
        for _ in 0..3 {
            assert!((0..40).all(|row| index.find(hashes[row]) == Some(row)));
            index.grow();
        }
        assert!(index.strays.is_empty(), "there is more room now");
    }
}
