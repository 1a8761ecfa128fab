//! The rows of a stripe, in the order of creation.
//!
//! Each slab is twice as long as the one before: a small table takes little memory, a row is located without a memory
//! access, and the slabs of a large table are long enough for large pages.

use super::pages::request_large_pages;
use super::snapshot::{CowPage, Now, SnapshotKind};
use std::ops::Range;

/// Numbers in a block of rows, which is the page of copy-on-write.
pub(super) const BLOCK: usize = 8 * 1024;

/// Bytes in a cache line.
const LINE: usize = 64;

/// The location of a row: its slab, and the first of its numbers there. Located first, rows can be prefetched back to back.
#[derive(Clone, Copy)]
pub(super) struct RowLocation {
    slab: usize,
    at: usize,
}

/// Rows of the same width.
pub(super) struct Slabs {
    /// Numbers in a row.
    width: usize,
    /// The binary logarithm of the rows in a block.
    bits: u32,
    /// Slabs of one block, two, four, and so on.
    slabs: Vec<Slab>,
    /// The copy-on-write state of each block.
    cow: Vec<CowPage>,
    rows: usize,
    /// Snapshots up to these are released.
    released: Now,
}

impl Slabs {
    pub(super) fn new(width: usize) -> Self {
        let bits = (BLOCK / width.max(1)).max(1).ilog2();
        Self { width, bits, slabs: Vec::new(), cow: Vec::new(), rows: 0, released: Now::default() }
    }

    /// Returns the number of rows of a block.
    pub(super) fn block_rows(&self) -> usize {
        1 << self.bits
    }

    /// Adds a row of zeros. No snapshot has it, so none needs a copy.
    pub(super) fn add(&mut self, now: Now) -> &mut [f32] {
        let (row, block) = (self.rows, self.rows >> self.bits);
        if block == self.cow.len() {
            self.cow.push(CowPage::new(now));
            if block + 1 == 1 << self.slabs.len() {
                self.slabs.push(Slab::zeros((self.width << self.bits) << self.slabs.len()));
            }
        }
        self.rows += 1;
        self.numbers(self.location(row))
    }

    /// Returns the location of a row, which never changes.
    pub(super) fn location(&self, row: usize) -> RowLocation {
        let slab = ((row >> self.bits) + 1).ilog2() as usize;
        RowLocation { slab, at: (row - self.first(slab)) * self.width }
    }

    /// Returns the first row of a slab.
    fn first(&self, slab: usize) -> usize {
        ((1 << slab) - 1) << self.bits
    }

    /// Returns a row.
    pub(super) fn at(&self, RowLocation { slab, at }: RowLocation) -> &[f32] {
        &self.slabs[slab].numbers()[at..at + self.width]
    }

    /// Returns a row to be changed, after preserving it for the snapshots.
    pub(super) fn change(&mut self, location: RowLocation, now: Now) -> &mut [f32] {
        if self.released != now {
            self.preserve(location, now);
        }
        self.numbers(location)
    }

    /// Preserves the row's block for the newest snapshots.
    fn preserve(&mut self, location: RowLocation, now: Now) {
        let block = (self.first(location.slab) + location.at / self.width) >> self.bits;
        let (slab, numbers) = self.block(block);
        self.cow[block].preserve(&self.slabs[slab].numbers()[numbers], now);
    }

    fn numbers(&mut self, RowLocation { slab, at }: RowLocation) -> &mut [f32] {
        &mut self.slabs[slab].numbers_mut()[at..at + self.width]
    }

    /// Returns a block's slab and its range there.
    fn block(&self, block: usize) -> (usize, Range<usize>) {
        let RowLocation { slab, at } = self.location(block << self.bits);
        (slab, at..at + (self.width << self.bits))
    }

    /// Returns a block's numbers at the kind's newest snapshot.
    pub(super) fn read_snapshot(&self, kind: SnapshotKind, block: usize) -> &[f32] {
        let (slab, numbers) = self.block(block);
        self.cow[block].read_snapshot(kind, &self.slabs[slab].numbers()[numbers])
    }

    /// Drops the copies for `snapshot`.
    pub(super) fn release_snapshot(&mut self, kind: SnapshotKind, snapshot: u64) {
        self.cow.iter_mut().for_each(|page| page.release(kind, snapshot));
        let released = &mut self.released[kind as usize];
        *released = snapshot.max(*released);
    }
}

/// Numbers that begin at a cache line: a row that fits into one line must not lie in two.
struct Slab {
    memory: Vec<f32>,
    /// How many numbers are before that line.
    skipped: usize,
}

impl Slab {
    /// Allocates untouched zeros: the operating system maps memory when a row is filled.
    fn zeros(count: usize) -> Self {
        let memory = vec![0.0; count + LINE / size_of::<f32>()];
        request_large_pages(&memory);
        let skipped = memory.as_ptr().align_offset(LINE);
        Self { memory, skipped }
    }

    fn numbers(&self) -> &[f32] {
        &self.memory[self.skipped..]
    }

    fn numbers_mut(&mut self) -> &mut [f32] {
        &mut self.memory[self.skipped..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Now = [0, 0];

    #[test]
    fn rows_stay_what_and_where_they_are() {
        for width in [1, 3, 16, 5000, 9000] {
            let mut slabs = Slabs::new(width);
            let count = 9 * slabs.block_rows() + 5;
            for row in 0..count {
                let added = slabs.add(NONE);
                assert!(added.len() == width && added.iter().all(|&x| x == 0.0));
                added.fill(row as f32);
            }
            assert!((0..count).all(|row| slabs.at(slabs.location(row)).iter().all(|&x| x == row as f32)), "{width}");
        }
    }

    #[test]
    fn a_row_as_long_as_a_cache_line_is_one() {
        let mut slabs = Slabs::new(16);
        let count = 9 * slabs.block_rows();
        assert!((0..count).all(|_| slabs.add(NONE).as_ptr().align_offset(LINE) == 0));
    }

    #[test]
    fn a_snapshot_copies_what_changes_after_it_and_nothing_else() {
        let mut slabs = Slabs::new(16);
        let rows = 3 * slabs.block_rows();
        (0..rows).for_each(|row| slabs.add(NONE).fill(row as f32));
        let row = slabs.location(1);
        slabs.change(row, [1, 0]).fill(-1.0);
        slabs.change(row, [1, 0]).fill(-2.0);
        assert_eq!(
            (
                slabs.at(row)[0],
                slabs.read_snapshot(SnapshotKind::Checkpoint, 0)[16],
                slabs.read_snapshot(SnapshotKind::Checkpoint, 0)[32]
            ),
            (-2.0, 1.0, 2.0)
        );
        let copied = |slabs: &Slabs, block: usize| {
            slabs.read_snapshot(SnapshotKind::Checkpoint, block).as_ptr()
                != slabs.at(slabs.location(block * slabs.block_rows())).as_ptr()
        };
        assert_eq!([0, 1, 2].map(|block| copied(&slabs, block)), [true, false, false]);
        slabs.add([1, 0]).fill(7.0);
        slabs.release_snapshot(SnapshotKind::Checkpoint, 1);
        slabs.change(row, [1, 0]).fill(-3.0);
        assert!((0..4).all(|block| !copied(&slabs, block)));
        slabs.change(row, [2, 0]).fill(-4.0);
        assert_eq!(slabs.read_snapshot(SnapshotKind::Checkpoint, 0)[16], -3.0);
    }
}
