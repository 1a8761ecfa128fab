//! The index of a stripe: from ids to rows. A cuckoo hash table with two buckets for each id, each a cache line of eight
//! slots.
//!
//! A slot holds the row's number and the bits of the id's hash that its bucket does not imply. The hash is a bijection, so
//! no bits are lost, and since a larger index has more buckets and higher row numbers, both always fit into eight bytes.
//! Nine of ten ids are in their first bucket, which can be prefetched: for random ids of a large table that is most of the
//! time. A library's map offers neither.

use super::pages::request_large_pages;
use phalanx_base::{STRIDE, prefetch};
use std::collections::HashMap;

/// Slots in a bucket.
const SLOTS: usize = 8;
/// The number of stripes of a table.
pub(super) const STRIPES: usize = 16;
/// Bits of a tag; the higher bits of the hash choose the stripe.
const TAG_BITS: u32 = u64::BITS - STRIPES.ilog2();
/// How many ids may be moved to place one.
const MOVES: usize = 64;

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Bucket([u64; SLOTS]);

impl Bucket {
    const EMPTY: Self = Self([0; SLOTS]);
}

/// An id's tag, and its row plus one.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Entry {
    tag: u64,
    number: u64,
}

#[derive(Default)]
pub(super) struct Index {
    /// Empty, or a power of two of them, at least two.
    buckets: Vec<Bucket>,
    used: usize,
    /// Entries that found no slot. Empty, unless ids were chosen to collide.
    overflow: HashMap<u64, u64>,
}

impl Index {
    /// Prefetches the first bucket of a tag.
    pub(super) fn prefetch(&self, tag: u64) {
        if let Some(last) = self.buckets.len().checked_sub(1) {
            prefetch(&self.buckets[tag as usize & last].0);
        }
    }

    /// Returns the row of the id with this tag.
    pub(super) fn find(&self, tag: u64) -> Option<usize> {
        if self.buckets.is_empty() {
            return None;
        }
        for second in [false, true] {
            let (bucket, wanted) = self.slot(Entry { tag, number: 0 }, second);
            let (slots, numbers) = (&self.buckets[bucket].0, 1 << self.number_bits());
            // At most one slot has the id, and an empty one adds nothing: no branch that would be mispredicted.
            let number = slots.iter().fold(0, |found, slot| {
                let number = slot ^ wanted;
                if number < numbers { found | number } else { found }
            });
            if number > 0 {
                return Some(number as usize - 1);
            }
            // An id uses its second bucket, or the overflow, only after the bucket before is full.
            if slots[SLOTS - 1] == 0 {
                return None;
            }
        }
        self.overflow.get(&tag).map(|&number| number as usize - 1)
    }

    /// Gives the next row to the id with this tag, which has none.
    pub(super) fn add(&mut self, tag: u64) -> usize {
        if 4 * (self.used + 1) > 3 * SLOTS * self.buckets.len() {
            self.grow();
        }
        let row = self.used;
        self.used += 1;
        self.put(Entry { tag, number: self.used as u64 });
        row
    }

    fn put(&mut self, mut entry: Entry) {
        for moves in 0..MOVES {
            for second in [false, true] {
                let (bucket, slot) = self.slot(entry, second);
                if let Some(free) = self.buckets[bucket].0.iter_mut().find(|other| **other == 0) {
                    *free = slot;
                    return;
                }
            }
            // Both are full: it evicts another entry, which has an alternate bucket too.
            let (bucket, slot) = self.slot(entry, true);
            let other = std::mem::replace(&mut self.buckets[bucket].0[moves % SLOTS], slot);
            entry = self.entry(bucket, other);
        }
        self.overflow.insert(entry.tag, entry.number);
    }

    /// Returns an entry's first or second bucket, and its slot there.
    fn slot(&self, entry: Entry, second: bool) -> (usize, u64) {
        let last = self.buckets.len() as u64 - 1;
        let (home, rest) = (entry.tag & last, entry.tag >> self.bucket_bits());
        let bucket = if second { home ^ self.alternate(rest) } else { home };
        (bucket as usize, ((rest << 1 | u64::from(second)) << self.number_bits()) | entry.number)
    }

    /// Returns the entry in a slot.
    fn entry(&self, bucket: usize, slot: u64) -> Entry {
        let (key, number) = (slot >> self.number_bits(), slot & ((1 << self.number_bits()) - 1));
        let rest = key >> 1;
        let home = if key & 1 == 1 { bucket as u64 ^ self.alternate(rest) } else { bucket as u64 };
        Entry { tag: rest << self.bucket_bits() | home, number }
    }

    /// Returns the distance (by exclusive or) from one bucket of an id to the alternate one.
    fn alternate(&self, rest: u64) -> u64 {
        rest.wrapping_mul(STRIDE) >> (u64::BITS - self.bucket_bits())
    }

    fn bucket_bits(&self) -> u32 {
        self.buckets.len().ilog2()
    }

    /// There are fewer rows than slots.
    fn number_bits(&self) -> u32 {
        self.bucket_bits() + SLOTS.ilog2()
    }

    fn grow(&mut self) {
        let count = (2 * self.buckets.len()).max(2);
        let mut buckets = Vec::with_capacity(count);
        request_large_pages(buckets.spare_capacity_mut());
        buckets.resize(count, Bucket::EMPTY);
        let former = std::mem::replace(self, Self { buckets, used: self.used, overflow: HashMap::new() });
        for (at, bucket) in former.buckets.iter().enumerate() {
            for &slot in bucket.0.iter().filter(|&&slot| slot != 0) {
                self.put(former.entry(at, slot));
            }
        }
        former.overflow.into_iter().for_each(|(tag, number)| self.put(Entry { tag, number }));
    }
}

/// Hashes an id by a bijection. It differs from the mixing that chose the server, or all rows of a server would share bits.
pub(super) fn hash(id: i64) -> u64 {
    (id as u64).wrapping_mul(STRIDE).rotate_left(29).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

/// Returns the stripe of an id.
pub(super) fn stripe_of(id: i64) -> usize {
    (hash(id) >> TAG_BITS) as usize
}

/// Returns the tag of an id: the bits of its hash that do not choose the stripe.
pub(super) fn tag(id: i64) -> u64 {
    hash(id) & ((1 << TAG_BITS) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_base::SplitMix;

    /// Ids of one stripe, as an index has them.
    fn of_one_stripe(ids: impl Iterator<Item = i64>) -> impl Iterator<Item = i64> {
        ids.filter(|&id| stripe_of(id) == 3)
    }

    #[test]
    fn ids_keep_their_rows_however_many_come() {
        let (mut index, mut known) = (Index::default(), HashMap::new());
        let mut random = SplitMix::new(7);
        // Some consecutive, some random, some repeated, some negative.
        let ids = (0..3_000_000_i64).map(|step| match step % 4 {
            0 => step,
            1 => (random.word() >> 20) as i64,
            2 => (random.word() >> 50) as i64,
            _ => -step,
        });
        for id in of_one_stripe(ids) {
            let tag = tag(id);
            index.prefetch(tag);
            assert_eq!(index.find(tag), known.get(&id).copied());
            if !known.contains_key(&id) {
                assert_eq!(index.add(tag), known.len());
                known.insert(id, known.len());
            }
        }
        assert!(known.len() > 100_000 && index.overflow.is_empty());
    }

    #[test]
    fn most_ids_are_in_their_first_bucket() {
        let mut index = Index::default();
        let ids: Vec<i64> = of_one_stripe(0..20_000_000).take(3 * (1 << 18)).collect();
        ids.iter().for_each(|&id| _ = index.add(tag(id)));
        assert_eq!((index.buckets.len(), ids.len()), (1 << 17, 3 << 18), "as full as it gets");
        let second = |bucket: &Bucket| bucket.0.iter().filter(|&&slot| slot >> index.number_bits() & 1 == 1).count();
        let second: usize = index.buckets.iter().map(second).sum();
        assert!(second < ids.len() / 10, "{second} of {}", ids.len());
    }

    #[test]
    fn a_slot_converts_back_to_its_entry() {
        let mut index = Index::default();
        for _ in 0..20 {
            index.grow();
            for number in [1, 2 * index.buckets.len() as u64] {
                for tag in [0, 1, (1 << TAG_BITS) - 1, 0x123_4567_89ab_cdef] {
                    let entry = Entry { tag, number };
                    for second in [false, true] {
                        let (bucket, slot) = index.slot(entry, second);
                        assert_eq!(index.entry(bucket, slot), entry);
                    }
                }
            }
        }
    }

    #[test]
    fn ids_that_were_chosen_to_collide_are_found_too() {
        let mut index = Index::default();
        (0..4).for_each(|_| index.grow());
        let same = |&tag: &u64| index.slot(Entry { tag, number: 0 }, true).0 == 5;
        let tags: Vec<u64> = (0..).map(|rest| rest << index.bucket_bits() | 2).filter(same).take(40).collect();
        for (&tag, number) in tags.iter().zip(1..) {
            assert_eq!(index.find(tag), None);
            index.used += 1;
            index.put(Entry { tag, number });
        }
        assert_eq!(index.overflow.len(), 40 - 2 * SLOTS);
        for _ in 0..3 {
            assert!((0..40).all(|row| index.find(tags[row]) == Some(row)));
            index.grow();
        }
        assert!(index.overflow.is_empty(), "there are more buckets now");
    }
}
