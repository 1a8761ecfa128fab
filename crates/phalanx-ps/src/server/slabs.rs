//! The rows of a stripe, in the order in which they came into being.
//!
//! Each slab is twice as long as the one before: a small table takes little, a row is found without a look into memory,
//! and the slabs of a large table are long enough for large pages.

use super::cut::Before;
use super::pages::in_large_pages;
use std::ops::Range;

/// Numbers in a block of rows: as much as is copied when a cut is kept and one of its rows changes.
pub(super) const BLOCK: usize = 8 * 1024;

/// Rows of the same width.
pub(super) struct Slabs {
    /// Numbers in a row.
    width: usize,
    /// Rows in a block: two to the power of this.
    bits: u32,
    /// One block, two, four, and so on.
    slabs: Vec<Vec<f32>>,
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
                self.slabs.push(zeros((self.width << self.bits) << self.slabs.len()));
            }
        }
        self.rows += 1;
        self.numbers(row)
    }

    /// A row to be looked at.
    pub(super) fn at(&self, row: usize) -> &[f32] {
        let (slab, at) = self.place(row);
        &self.slabs[slab][at..at + self.width]
    }

    /// A row to be changed.
    pub(super) fn change(&mut self, row: usize, now: u64) -> &mut [f32] {
        if self.done < now {
            let block = row >> self.bits;
            let (slab, numbers) = self.block(block);
            self.before[block].keep(&self.slabs[slab][numbers], now);
        }
        self.numbers(row)
    }

    fn numbers(&mut self, row: usize) -> &mut [f32] {
        let (slab, at) = self.place(row);
        &mut self.slabs[slab][at..at + self.width]
    }

    /// A block's slab, and where in it its numbers are.
    fn block(&self, block: usize) -> (usize, Range<usize>) {
        let (slab, at) = self.place(block << self.bits);
        (slab, at..at + (self.width << self.bits))
    }

    /// A block's numbers as they were at the cut.
    pub(super) fn at_cut(&self, block: usize) -> &[f32] {
        let (slab, numbers) = self.block(block);
        self.before[block].at_cut(&self.slabs[slab][numbers])
    }

    /// The cut needs no copies any more.
    pub(super) fn let_go(&mut self, cut: u64) {
        self.before.iter_mut().for_each(|before| before.let_go(cut));
        self.done = self.done.max(cut);
    }

    /// A row's slab, and where in it the row begins.
    fn place(&self, row: usize) -> (usize, usize) {
        let slab = ((row >> self.bits) + 1).ilog2();
        let first = ((1 << slab) - 1) << self.bits;
        (slab as usize, (row - first) * self.width)
    }
}

/// Untouched: the operating system gives memory when a row is filled.
fn zeros(count: usize) -> Vec<f32> {
    let numbers = vec![0.0; count];
    in_large_pages(&numbers);
    numbers
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
            assert!((0..count).all(|row| slabs.at(row).iter().all(|&x| x == row as f32)), "{width}");
        }
    }

    #[test]
    fn a_cut_keeps_what_changes_after_it_and_nothing_else() {
        let mut slabs = Slabs::new(16);
        let rows = 3 * slabs.block_rows();
        (0..rows).for_each(|row| slabs.add(0).fill(row as f32));
        slabs.change(1, 1).fill(-1.0);
        slabs.change(1, 1).fill(-2.0);
        assert_eq!((slabs.at(1)[0], slabs.at_cut(0)[16], slabs.at_cut(0)[32]), (-2.0, 1.0, 2.0));
        let copied = |block: usize| slabs.at_cut(block).as_ptr() != slabs.at(block * slabs.block_rows()).as_ptr();
        assert_eq!([0, 1, 2].map(copied), [true, false, false]);
        slabs.add(1).fill(7.0);
        slabs.let_go(1);
        slabs.change(1, 1).fill(-3.0);
        assert!((0..4).all(|block| slabs.at_cut(block).as_ptr() == slabs.at(block * slabs.block_rows()).as_ptr()));
        slabs.change(1, 2).fill(-4.0);
        assert_eq!(slabs.at_cut(0)[16], -3.0);
    }
}
