//! The kernels for AVX-512, and how a product is split for them.
//!
//! A tile of the product, at most 14 rows by 32 columns, is summed up in registers. The factors are packed first, each so
//! that a tile reads it sequentially: a cache line of sixteen 32-bit words for every step along the sum, which are sixteen
//! numbers, or in bfloat16 sixteen pairs. All threads pack the right factor together, and all use all of it; of the left
//! one each packs its current block, which stays in the L2 cache while the right one streams through.

#![allow(unsafe_code)]

mod pack;
mod tile;

use crate::{Finish, Matrix, Precision};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The most rows of a tile: two registers each, plus three others.
const ROWS: usize = 14;
/// Columns of a tile.
const COLUMNS: usize = 32;
/// The most steps along the sum that are packed at once.
const DEPTH: usize = 512;
/// Rows of the left factor that are packed at once: with `DEPTH`, half of an L2 cache.
const BLOCK: usize = 18 * ROWS;
/// The number of multiplications from which a product is worth a second thread.
const PARALLEL_FROM: usize = 1 << 21;

/// The kernels of one precision. A value proves that this CPU has their instructions: only [`Self::detect`] creates one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kernel(Precision);

impl Kernel {
    /// Returns the kernels of `precision`, unless this CPU lacks an instruction.
    pub(crate) fn detect(precision: Precision) -> Option<Self> {
        let always = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
        let has_all = always && (precision == Precision::F32 || is_x86_feature_detected!("avx512bf16"));
        has_all.then_some(Self(precision))
    }

    /// Returns the steps along the sum in one packed word: in bfloat16 a pair.
    fn each(self) -> usize {
        match self.0 {
            Precision::F32 => 1,
            Precision::Bf16 => 2,
        }
    }
}

/// One step along the sum, packed.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct CacheLine([u32; 16]);

/// The memory of the product; threads write to different tiles of it.
#[derive(Clone, Copy)]
struct Out {
    start: *mut f32,
    columns: usize,
}

// SAFETY: only `compute_range` writes through the pointer, and its callers give every thread different tiles.
unsafe impl Send for Out {}
// SAFETY: as above.
unsafe impl Sync for Out {}

/// The packed right factor: for each part of the sum, panels of 32 columns. Every panel has two cache lines for each step.
#[derive(Clone, Copy)]
struct Right {
    start: *mut MaybeUninit<CacheLine>,
    panels: usize,
    /// Steps in every part of the sum but the last, which may have fewer.
    depth: usize,
}

// SAFETY: the memory is reached through `panels_mut` and `panel` only, whose callers promise that no thread writes what
// another uses.
unsafe impl Send for Right {}
// SAFETY: as above.
unsafe impl Sync for Right {}

impl Right {
    /// Returns the first cache line of a panel in a part of the sum with `steps` steps.
    fn line(self, part: usize, steps: usize, panel: usize) -> usize {
        2 * (part * self.depth * self.panels + panel * steps)
    }

    /// Returns the cache lines of adjacent panels, to be written.
    ///
    /// # Safety
    /// The part and the panels exist, and the part has `steps` steps. Nobody else uses these panels of this part as long as
    /// the slice lives, and the memory lives that long.
    unsafe fn panels_mut<'a>(
        self,
        part: usize,
        steps: usize,
        panels: Range<usize>,
    ) -> &'a mut [MaybeUninit<CacheLine>] {
        // SAFETY: the caller promises that the panels exist, so the lines are inside the memory that `start` points to,
        // and that they are nobody else's.
        unsafe {
            let start = self.start.add(self.line(part, steps, panels.start));
            std::slice::from_raw_parts_mut(start, 2 * panels.len() * steps)
        }
    }

    /// Returns the start of a panel, to be read.
    ///
    /// # Safety
    /// The part and the panel exist, and the part has `steps` steps.
    unsafe fn panel(self, part: usize, steps: usize, panel: usize) -> *const CacheLine {
        // SAFETY: the caller promises that the panel exists.
        unsafe { self.start.add(self.line(part, steps, panel)).cast() }
    }
}

/// See [`crate::matmul`].
pub(crate) fn matmul(a: Matrix<'_>, b: Matrix<'_>, kernel: Kernel, finish: Option<Finish<'_>>) -> Vec<f32> {
    assert_eq!(a.columns(), b.rows(), "the left matrix has as many columns as the right one has rows");
    assert!(finish.is_none_or(|finish| finish.bias.len() == b.columns()), "a bias for every column");
    let (rows, columns) = (a.rows(), b.columns());
    if a.columns() == 0 {
        let of_nothing =
            |finish: Finish<'_>| finish.bias.iter().map(|&x| if finish.relu && x <= 0.0 { 0.0 } else { x }).collect();
        return finish.map_or(vec![0.0; columns], of_nothing).repeat(rows);
    }
    let count = rows.checked_mul(columns).expect("the product fits into memory");
    let mut numbers = Vec::<f32>::with_capacity(count);
    let out = Out { start: numbers.as_mut_ptr(), columns };
    let panels = columns.div_ceil(COLUMNS);
    let steps = a.columns().div_ceil(kernel.each());
    let mut packed = Vec::<CacheLine>::with_capacity(2 * panels * steps);
    // Parts of equal length: for a short last part, tiles would be read and written for little work.
    let depth = steps.div_ceil(steps.div_ceil(DEPTH));
    let right = Right { start: packed.spare_capacity_mut().as_mut_ptr(), panels, depth };
    let worth_it = count.saturating_mul(a.columns()) >= PARALLEL_FROM;
    let threads = if worth_it { rayon::current_num_threads() } else { 1 };
    // SAFETY: `right` has lines for all panels and steps of `b`, and tile ranges consist of complete panels and do not overlap.
    for_tile_ranges(columns, COLUMNS, threads, |columns| unsafe { pack_right(b, columns, right, kernel) });
    // Along the side that has more tiles. `compute_range` is safe to call: all of the right factor is packed; its steps are those of
    // `a`, which has as many columns as `b` has rows; tile ranges lie inside the product, which `out` has memory for, and do
    // not overlap.
    if rows / ROWS >= columns / COLUMNS {
        // SAFETY: see above.
        for_tile_ranges(rows, ROWS, threads, |rows| unsafe {
            compute_range(a, right, out, rows, 0..columns, kernel, finish)
        });
    } else {
        // SAFETY: see above.
        for_tile_ranges(columns, COLUMNS, threads, |columns| unsafe {
            compute_range(a, right, out, 0..rows, columns, kernel, finish);
        });
    }
    // SAFETY: every tile was written: the first steps along the sum do not add to what is there.
    unsafe { numbers.set_len(count) };
    numbers
}

/// Splits a side into tile ranges and calls `work` for each on some thread: a large range for each thread, then small ones
/// for threads that finish early, because threads are delayed now and then.
fn for_tile_ranges(side: usize, tile: usize, threads: usize, work: impl Fn(Range<usize>) + Sync) {
    if threads == 1 {
        return work(0..side);
    }
    let tiles = side.div_ceil(tile);
    let (large, small) = ((tiles * 3 / 4 / threads).max(1), (tiles / 16 / threads).max(1));
    let starts: Vec<usize> = (0..threads).map(|i| i * large).chain((threads * large..tiles).step_by(small)).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(&start) = starts.get(next.fetch_add(1, Ordering::Relaxed)) {
            let length = if start < threads * large { large } else { small };
            let range = start * tile..side.min((start + length) * tile);
            if !range.is_empty() {
                work(range);
            }
        }
    };
    rayon::scope(|scope| (0..threads).for_each(|_| scope.spawn(|_| work())));
}

/// Packs one thread's columns of the right factor.
///
/// # Safety
/// `right` has memory for every panel and step of `b`. `columns` begins where a panel does and lies inside `b`. No other
/// thread uses the panels of these columns meanwhile.
unsafe fn pack_right(b: Matrix<'_>, columns: Range<usize>, right: Right, kernel: Kernel) {
    let complete = columns.len() / COLUMNS * COLUMNS;
    let by_rows = if kernel.0 == Precision::F32 && b.strides().0 == 1 { complete } else { 0 };
    let (by_rows, others) = (columns.start..columns.start + by_rows, columns.start + by_rows..columns.end);
    for (part, sum) in parts(0..b.rows(), kernel.each() * right.depth).enumerate() {
        let steps = sum.len().div_ceil(kernel.each());
        let panels = |columns: &Range<usize>| {
            let panels = columns.start / COLUMNS..columns.end.div_ceil(COLUMNS);
            // SAFETY: these are panels of this thread's columns, of a part of `b` with this number of steps. Each slice is dropped
            // before the next one is made.
            unsafe { right.panels_mut(part, steps, panels) }
        };
        pack::right_by_rows(b, sum.clone(), by_rows.clone(), panels(&by_rows), kernel);
        for columns in parts(others.clone(), COLUMNS) {
            pack::right(b, sum.clone(), columns.clone(), panels(&columns), kernel);
        }
    }
}

/// Computes one tile range of a product.
///
/// # Safety
/// All of `right` is packed, for as many steps as `a` has columns. `rows` and `columns` lie inside the product, which `out`
/// has memory for; `columns` begins where a panel does; no other thread uses that part of the product meanwhile.
unsafe fn compute_range(
    a: Matrix<'_>,
    right: Right,
    out: Out,
    rows: Range<usize>,
    columns: Range<usize>,
    kernel: Kernel,
    finish: Option<Finish<'_>>,
) {
    let mut left = Vec::<CacheLine>::with_capacity(right.depth * BLOCK.min(rows.len()).div_ceil(ROWS));
    for block in parts(rows, BLOCK) {
        // Tiles of equal height, rather than a last one of a row or two.
        let height = block.len().div_ceil(block.len().div_ceil(ROWS));
        for (part, sum) in parts(0..a.columns(), kernel.each() * right.depth).enumerate() {
            let (steps, is_last) = (sum.len().div_ceil(kernel.each()), sum.end == a.columns());
            for (panel, rows) in parts(block.clone(), height).enumerate() {
                let to = &mut left.spare_capacity_mut()[panel * steps..][..steps];
                pack::left(a, rows, sum.clone(), to, kernel);
            }
            for columns in parts(columns.clone(), COLUMNS) {
                // SAFETY: the caller promises that the right factor has these columns and this part of the sum.
                let right = unsafe { right.panel(part, steps, columns.start / COLUMNS) };
                for (panel, rows) in parts(block.clone(), height).enumerate() {
                    // SAFETY: the left factor was packed above for these steps, the right one before by the caller's
                    // promise. The tile is inside the product and this thread's own, by the caller's promise too; where
                    // it adds, the part of the sum before has written it.
                    unsafe {
                        let tile = tile::Tile {
                            steps,
                            left: left.as_ptr().add(panel * steps),
                            right,
                            out: out.start.add(rows.start * out.columns + columns.start),
                            next: out.columns,
                            rows: rows.len(),
                            columns: columns.len(),
                            adds: sum.start > 0,
                            finish: finish
                                .filter(|_| is_last)
                                .map(|finish| (&finish.bias[columns.clone()], finish.relu)),
                        };
                        tile.compute(kernel);
                    }
                }
            }
        }
    }
}

/// Splits a range into parts of a length; the last one may be shorter.
fn parts(range: Range<usize>, length: usize) -> impl Iterator<Item = Range<usize>> {
    range.clone().step_by(length).map(move |start| start..range.end.min(start + length))
}
