//! The rows of a stripe, in the order in which they came into being.
//!
//! Each slab is twice as long as the one before: a small table takes little, a row is found without a look into memory,
//! and the slabs of a large table are long enough for large pages.

use super::pages::in_large_pages;
use super::snapshot::Before;
use std::ops::Range;

/// Numbers in a block of rows: as much as is copied when a cut is kept and one of its rows changes.
pub(super) const BLOCK: usize = 8 * 1024;

/// Bytes in a line of memory.
const LINE: usize = 64;

/// Where a row is: its slab, and the first of its numbers there. Asking for the memory of many rows one behind the other
/// wants as little as possible in between.
#[derive(Clone, Copy)]
pub(super) struct Spot {
    slab: usize,
    at: usize,
}

/// Rows of the same width.
pub(super) struct Slabs {
    /// Numbers in a row.
    width: usize,
    /// Rows in a block: two to the power of this.
    bits: u32,
    /// One block, two, four, and so on.
    slabs: Vec<Slab>,
    /// What each block was at the cut.
    before: Vec<Before>,
    rows: usize,
    /// No cut up to this one needs anything.
    done: u64,
}

impl Slabs {
    pub(super) fn new(width: usize) -> Self {
        let bits = (BLOCK / width.max(1)).max(1).ilog2();
        Self { width, bits, slabs: Vec::new(), before: Vec::new(), rows: 0, done: 0 }
    }

    /// How many rows a block has.
    pub(super) fn block_rows(&self) -> usize {
        1 << self.bits
    }

    /// One row more, of zeros, to be filled. A cut does not have it, and needs no copy.
    pub(super) fn add(&mut self, now: u64) -> &mut [f32] {
        let (row, block) = (self.rows, self.rows >> self.bits);
        if block == self.before.len() {
            self.before.push(Before::new(now));
            if block + 1 == 1 << self.slabs.len() {
                self.slabs.push(Slab::zeros((self.width << self.bits) << self.slabs.len()));
            }
        }
        self.rows += 1;
        self.numbers(self.spot(row))
    }

    /// Where a row is, which stays so.
    pub(super) fn spot(&self, row: usize) -> Spot {
        let slab = ((row >> self.bits) + 1).ilog2() as usize;
        Spot { slab, at: (row - self.first(slab)) * self.width }
    }

    /// The first row of a slab.
    fn first(&self, slab: usize) -> usize {
        ((1 << slab) - 1) << self.bits
    }

    /// A row to be looked at.
    pub(super) fn at(&self, Spot { slab, at }: Spot) -> &[f32] {
        &self.slabs[slab].numbers()[at..at + self.width]
    }

    /// A row to be changed.
    pub(super) fn change(&mut self, spot: Spot, now: u64) -> &mut [f32] {
        if self.done < now {
            self.keep(spot, now);
        }
        self.numbers(spot)
    }

    /// The cut may need the row's block as it is.
    fn keep(&mut self, spot: Spot, now: u64) {
        let block = (self.first(spot.slab) + spot.at / self.width) >> self.bits;
        let (slab, numbers) = self.block(block);
        self.before[block].keep(&self.slabs[slab].numbers()[numbers], now);
    }

    fn numbers(&mut self, Spot { slab, at }: Spot) -> &mut [f32] {
        &mut self.slabs[slab].numbers_mut()[at..at + self.width]
    }

    /// A block's slab, and where in it its numbers are.
    fn block(&self, block: usize) -> (usize, Range<usize>) {
        let Spot { slab, at } = self.spot(block << self.bits);
        (slab, at..at + (self.width << self.bits))
    }

    /// A block's numbers as they were at the cut.
    pub(super) fn at_cut(&self, block: usize) -> &[f32] {
        let (slab, numbers) = self.block(block);
        self.before[block].at_cut(&self.slabs[slab].numbers()[numbers])
    }

    /// The cut needs no copies any more.
    pub(super) fn let_go(&mut self, cut: u64) {
        self.before.iter_mut().for_each(|before| before.let_go(cut));
        self.done = self.done.max(cut);
    }
}

/// Numbers that begin where a line of memory does: a row that fits into one must not lie in two.
struct Slab {
    memory: Vec<f32>,
    /// How many of them are in front of that line.
    skipped: usize,
}

impl Slab {
    /// Untouched: the operating system gives memory when a row is filled.
    fn zeros(count: usize) -> Self {
        let memory = vec![0.0; count + LINE / size_of::<f32>()];
        in_large_pages(&memory);
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

    #[test]
    fn rows_stay_what_and_where_they_are() {
        for width in [1, 3, 16, 5000, 9000] {
            let mut slabs = Slabs::new(width);
            let count = 9 * slabs.block_rows() + 5;
            for row in 0..count {
                let added = slabs.add(0);
                assert!(added.len() == width && added.iter().all(|&x| x == 0.0));
                added.fill(row as f32);
            }
            assert!((0..count).all(|row| slabs.at(slabs.spot(row)).iter().all(|&x| x == row as f32)), "{width}");
        }
    }

    #[test]
    fn a_row_as_long_as_a_line_of_memory_is_one() {
        let mut slabs = Slabs::new(16);
        let count = 9 * slabs.block_rows();
        assert!((0..count).all(|_| slabs.add(0).as_ptr().align_offset(LINE) == 0));
    }

    #[test]
    fn a_cut_keeps_what_changes_after_it_and_nothing_else() {
        let mut slabs = Slabs::new(16);
        let rows = 3 * slabs.block_rows();
        (0..rows).for_each(|row| slabs.add(0).fill(row as f32));
        let row = slabs.spot(1);
        slabs.change(row, 1).fill(-1.0);
        slabs.change(row, 1).fill(-2.0);
        assert_eq!((slabs.at(row)[0], slabs.at_cut(0)[16], slabs.at_cut(0)[32]), (-2.0, 1.0, 2.0));
        let copied = |slabs: &Slabs, block: usize| {
            slabs.at_cut(block).as_ptr() != slabs.at(slabs.spot(block * slabs.block_rows())).as_ptr()
        };
        assert_eq!([0, 1, 2].map(|block| copied(&slabs, block)), [true, false, false]);
        slabs.add(1).fill(7.0);
        slabs.let_go(1);
        slabs.change(row, 1).fill(-3.0);
        assert!((0..4).all(|block| !copied(&slabs, block)));
        slabs.change(row, 2).fill(-4.0);
        assert_eq!(slabs.at_cut(0)[16], -3.0);
    }
}
