//! The kernels for AVX-512, and how a product is cut for them.
//!
//! A tile of the product, at most 14 rows by 32 columns, is summed up in registers. The factors are packed first, each so
//! that a tile reads it from front to back: sixteen 32-bit words for every step along the sum, which are sixteen numbers,
//! or in bfloat16 sixteen pairs of them. The packed part of the left factor stays in the second-level cache while the
//! packed part of the right one goes by.

#![allow(unsafe_code)]

mod pack;
mod tile;

use crate::{Matrix, Precision};
use std::ops::Range;

/// The most rows of a tile: two registers each, and three are needed besides.
const ROWS: usize = 14;
/// Columns of a tile.
const COLUMNS: usize = 32;
/// Steps along the sum that are packed at once.
const DEPTH: usize = 384;
/// Rows of the left factor that are packed at once: with `DEPTH`, half of a second-level cache.
const BLOCK: usize = 18 * ROWS;
/// Columns of the right factor that are packed at once: with `DEPTH`, a part of the third-level cache.
const WIDTH: usize = 32 * COLUMNS;
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

/// The caller has seen that the shapes fit and the processor is supported.
pub(crate) fn product(a: Matrix<'_>, b: Matrix<'_>, precision: Precision) -> Vec<f32> {
    let (rows, columns) = (a.rows(), b.columns());
    if a.columns() == 0 {
        return vec![0.0; rows * columns];
    }
    let mut numbers = Vec::<f32>::with_capacity(rows * columns);
    let out = Out { start: numbers.as_mut_ptr(), columns };
    let threads = rayon::current_num_threads();
    if threads == 1 || rows * columns * a.columns() < WORTH_SHARING {
        share(a, b, out, 0..rows, 0..columns, precision);
    } else {
        // Whole tiles along the side that has more of them.
        let by_rows = rows / ROWS >= columns / COLUMNS;
        let (side, tile) = if by_rows { (rows, ROWS) } else { (columns, COLUMNS) };
        let each = side.div_ceil(tile).div_ceil(threads) * tile;
        rayon::scope(|scope| {
            for start in (0..side).step_by(each) {
                let part = start..side.min(start + each);
                scope.spawn(move |_| {
                    let (rows, columns) = if by_rows { (part, 0..columns) } else { (0..rows, part) };
                    share(a, b, out, rows, columns, precision);
                });
            }
        });
    }
    // SAFETY: every tile was written: the first steps along the sum do not add to what is there.
    unsafe { numbers.set_len(rows * columns) };
    numbers
}

/// One thread's part of a product.
fn share(a: Matrix<'_>, b: Matrix<'_>, out: Out, rows: Range<usize>, columns: Range<usize>, precision: Precision) {
    // Pairs take one word: in bfloat16 a packed step is two of the sum.
    let each = match precision {
        Precision::F32 => 1,
        Precision::Bf16 => 2,
    };
    let depth = a.columns().div_ceil(each).min(DEPTH);
    let mut left = Vec::<Line>::with_capacity(depth * BLOCK.min(rows.len()).div_ceil(ROWS));
    let mut right = Vec::<Line>::with_capacity(depth * WIDTH.min(columns.len()).div_ceil(COLUMNS) * 2);
    for columns in parts(columns, WIDTH) {
        for sum in parts(0..a.columns(), each * DEPTH) {
            let steps = sum.len().div_ceil(each);
            for (panel, columns) in parts(columns.clone(), COLUMNS).enumerate() {
                let lines = columns.len().div_ceil(16) * steps;
                let to = right.spare_capacity_mut()[2 * panel * steps..][..lines].as_mut_ptr().cast();
                pack::right(b, sum.clone(), columns, to, precision);
            }
            for block in parts(rows.clone(), BLOCK) {
                // Tiles of the same height, rather than a last one of a row or two.
                let height = block.len().div_ceil(block.len().div_ceil(ROWS));
                for (panel, rows) in parts(block.clone(), height).enumerate() {
                    let to = left.spare_capacity_mut()[panel * steps..][..steps].as_mut_ptr().cast();
                    pack::left(a, rows, sum.clone(), to, precision);
                }
                for (right_panel, columns) in parts(columns.clone(), COLUMNS).enumerate() {
                    for (left_panel, rows) in parts(block.clone(), height).enumerate() {
                        // SAFETY: both factors were packed above for as many steps, and the tile is inside of the product
                        // and this thread's own.
                        unsafe {
                            let tile = tile::Tile {
                                steps,
                                left: left.as_ptr().add(left_panel * steps),
                                right: right.as_ptr().add(2 * right_panel * steps),
                                out: out.start.add(rows.start * out.columns + columns.start),
                                next: out.columns,
                                rows: rows.len(),
                                columns: columns.len(),
                                adds: sum.start > 0,
                            };
                            tile.compute(precision);
                        }
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
