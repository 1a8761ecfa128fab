//! The kernels for AVX-512, and how a product is cut for them.
//!
//! A tile of the product, at most 14 rows by 32 columns, is summed up in registers. The factors are packed first, each so
//! that a tile reads it from front to back: sixteen 32-bit words for every step along the sum, which are sixteen numbers,
//! or in bfloat16 sixteen pairs of them. All threads pack the right factor together, and all use all of it; of the left
//! one each packs what it is at, which stays in the second-level cache while the right one goes by.

#![allow(unsafe_code)]

mod pack;
mod tile;

use crate::{Finish, Matrix, Precision};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The most rows of a tile: two registers each, and three are needed besides.
const ROWS: usize = 14;
/// Columns of a tile.
const COLUMNS: usize = 32;
/// The most steps along the sum that are packed at once.
const DEPTH: usize = 512;
/// Rows of the left factor that are packed at once: with `DEPTH`, half of a second-level cache.
const BLOCK: usize = 18 * ROWS;
/// A product with fewer multiplications than this is not worth a second thread.
const WORTH_SHARING: usize = 1 << 21;

pub(crate) fn is_supported(precision: Precision) -> bool {
    let always = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
    always && (precision == Precision::F32 || is_x86_feature_detected!("avx512bf16"))
}

/// One step along the sum, packed.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Line([u32; 16]);

/// Where the product goes; threads write to different tiles of it.
#[derive(Clone, Copy)]
struct Out {
    start: *mut f32,
    columns: usize,
}

// SAFETY: every thread is given tiles of its own.
unsafe impl Send for Out {}
// SAFETY: as above.
unsafe impl Sync for Out {}

/// The right factor, packed: for each part of the sum, panels of 32 columns. Threads write to different panels.
#[derive(Clone, Copy)]
struct Right {
    start: *mut Line,
    panels: usize,
    /// Steps in every part of the sum but the last, which may have fewer.
    depth: usize,
}

// SAFETY: every thread is given panels of its own to write, and they are read when all are done.
unsafe impl Send for Right {}
// SAFETY: as above.
unsafe impl Sync for Right {}

impl Right {
    /// Where a panel of the part of the sum with this number begins.
    fn panel(self, part: usize, steps: usize, panel: usize) -> *mut Line {
        self.start.wrapping_add(2 * (part * self.depth * self.panels + panel * steps))
    }
}

/// The caller has seen that the shapes fit and the processor is supported.
pub(crate) fn product(a: Matrix<'_>, b: Matrix<'_>, precision: Precision, finish: Option<Finish<'_>>) -> Vec<f32> {
    let (rows, columns) = (a.rows(), b.columns());
    if a.columns() == 0 {
        let of_nothing =
            |finish: Finish<'_>| finish.bias.iter().map(|&x| if finish.relu && x <= 0.0 { 0.0 } else { x }).collect();
        return finish.map_or(vec![0.0; columns], of_nothing).repeat(rows);
    }
    let mut numbers = Vec::<f32>::with_capacity(rows * columns);
    let out = Out { start: numbers.as_mut_ptr(), columns };
    let panels = columns.div_ceil(COLUMNS);
    let steps = a.columns().div_ceil(each(precision));
    let mut packed = Vec::<Line>::with_capacity(2 * panels * steps);
    // Parts of the same length: after a last one of a few steps a tile would be read and written for little.
    let depth = steps.div_ceil(steps.div_ceil(DEPTH));
    let right = Right { start: packed.as_mut_ptr(), panels, depth };
    let worth_it = rows * columns * a.columns() >= WORTH_SHARING;
    let threads = if worth_it { rayon::current_num_threads() } else { 1 };
    in_shares(columns, COLUMNS, threads, |columns| pack_right(b, columns, right, precision));
    // Along the side that has more tiles.
    if rows / ROWS >= columns / COLUMNS {
        in_shares(rows, ROWS, threads, |rows| share(a, right, out, rows, 0..columns, precision, finish));
    } else {
        in_shares(columns, COLUMNS, threads, |columns| share(a, right, out, 0..rows, columns, precision, finish));
    }
    // SAFETY: every tile was written: the first steps along the sum do not add to what is there.
    unsafe { numbers.set_len(rows * columns) };
    numbers
}

/// How many steps along the sum one packed step is: in bfloat16 pairs take one word.
fn each(precision: Precision) -> usize {
    match precision {
        Precision::F32 => 1,
        Precision::Bf16 => 2,
    }
}

/// Cuts a side into shares of whole tiles and has every one worked at by somebody: a large one for each thread, and small
/// ones for whoever is done first, because threads are held up now and then.
fn in_shares(side: usize, tile: usize, threads: usize, work: impl Fn(Range<usize>) + Sync) {
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
            let share = start * tile..side.min((start + length) * tile);
            if !share.is_empty() {
                work(share);
            }
        }
    };
    rayon::scope(|scope| (0..threads).for_each(|_| scope.spawn(|_| work())));
}

/// One thread's part of the right factor.
fn pack_right(b: Matrix<'_>, columns: Range<usize>, right: Right, precision: Precision) {
    let whole = columns.len() / COLUMNS * COLUMNS;
    let by_rows = if precision == Precision::F32 && b.strides().0 == 1 { whole } else { 0 };
    let (by_rows, others) = (columns.start..columns.start + by_rows, columns.start + by_rows..columns.end);
    for (part, sum) in parts(0..b.rows(), each(precision) * right.depth).enumerate() {
        let steps = sum.len().div_ceil(each(precision));
        let panel = |column: usize| right.panel(part, steps, column / COLUMNS);
        pack::right_by_rows(b, sum.clone(), by_rows.clone(), panel);
        for columns in parts(others.clone(), COLUMNS) {
            pack::right(b, sum.clone(), columns.clone(), panel(columns.start), precision);
        }
    }
}

/// One thread's part of a product.
fn share(
    a: Matrix<'_>,
    right: Right,
    out: Out,
    rows: Range<usize>,
    columns: Range<usize>,
    precision: Precision,
    finish: Option<Finish<'_>>,
) {
    let mut left = Vec::<Line>::with_capacity(right.depth * BLOCK.min(rows.len()).div_ceil(ROWS));
    for block in parts(rows, BLOCK) {
        // Tiles of the same height, rather than a last one of a row or two.
        let height = block.len().div_ceil(block.len().div_ceil(ROWS));
        for (part, sum) in parts(0..a.columns(), each(precision) * right.depth).enumerate() {
            let (steps, is_last) = (sum.len().div_ceil(each(precision)), sum.end == a.columns());
            for (panel, rows) in parts(block.clone(), height).enumerate() {
                let to = left.spare_capacity_mut()[panel * steps..][..steps].as_mut_ptr().cast();
                pack::left(a, rows, sum.clone(), to, precision);
            }
            for columns in parts(columns.clone(), COLUMNS) {
                let right = right.panel(part, steps, columns.start / COLUMNS);
                for (panel, rows) in parts(block.clone(), height).enumerate() {
                    // SAFETY: both factors were packed above for as many steps, and the tile is inside of the product
                    // and this thread's own.
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
                        tile.compute(precision);
                    }
                }
            }
        }
    }
}

/// A range in parts of a length, the last one perhaps shorter.
fn parts(range: Range<usize>, length: usize) -> impl Iterator<Item = Range<usize>> {
    range.clone().step_by(length).map(move |start| start..range.end.min(start + length))
}
