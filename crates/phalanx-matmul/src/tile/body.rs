//! The computation of a tile, for any vectors.

use super::{Sums, Tile};
use std::mem::MaybeUninit;

/// Vectors of 32-bit floats.
///
/// # Safety
/// The functions may be called where the CPU has the instructions of the implementation, and addresses can be read or
/// written for as many numbers as are named: all lanes, or the first few.
pub(super) trait Vectors {
    type Vector: Copy;
    const LANES: usize;

    unsafe fn zero() -> Self::Vector;
    unsafe fn load(from: *const f32) -> Self::Vector;
    unsafe fn load_part(from: *const f32, count: usize) -> Self::Vector;
    unsafe fn store(to: *mut f32, vector: Self::Vector);
    unsafe fn store_part(to: *mut f32, count: usize, vector: Self::Vector);
    /// One number in every lane.
    unsafe fn splat(from: *const f32) -> Self::Vector;
    /// Adds the product of two vectors.
    unsafe fn multiply_add(sum: Self::Vector, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    unsafe fn add(a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Returns `x`, and 0 where `y` is not positive; NaN counts as positive.
    unsafe fn where_positive(y: Self::Vector, x: Self::Vector) -> Self::Vector;
}

/// Computes a tile of `ROWS` rows and `VECTORS` vectors; of the last one only some columns, unless `FULL` is set. `UNIT`
/// means that the rows of the left factor are 1 apart: then no address depends on the one before.
///
/// # Safety
/// The CPU has the instructions of `S`. The tile is sound, as [`Tile`] says, and has these rows and vectors.
#[inline(always)]
pub(super) unsafe fn rows<S: Vectors, const ROWS: usize, const VECTORS: usize, const FULL: bool, const UNIT: bool>(
    tile: &Tile,
) {
    let factors = &tile.factors;
    let last = tile.columns - (VECTORS - 1) * S::LANES;
    let left_row = if UNIT { 1 } else { factors.left_row };
    let (left_step, right_step) = (factors.left_step, factors.right_step);
    let right_vector = factors.right_vector;
    let [outer, inner] = factors.repeats;
    // SAFETY: the caller promises that both factors can be read for every step, and the instructions.
    unsafe {
        let mut sums = [[S::zero(); VECTORS]; ROWS];
        for i in 0..outer.count {
            for j in 0..inner.count {
                let mut left = factors.left.add(i * outer.left + j * inner.left);
                let mut right = factors.right.add(i * outer.right + j * inner.right);
                for _ in 0..factors.steps {
                    let mut rights = [S::zero(); VECTORS];
                    for v in 0..VECTORS {
                        let from = right.wrapping_add(v * right_vector);
                        rights[v] = if FULL || v + 1 < VECTORS { S::load(from) } else { S::load_part(from, last) };
                    }
                    for row in 0..ROWS {
                        let number = S::splat(left.wrapping_add(row * left_row));
                        for v in 0..VECTORS {
                            sums[row][v] = S::multiply_add(sums[row][v], number, rights[v]);
                        }
                    }
                    left = left.wrapping_add(left_step);
                    right = right.wrapping_add(right_step);
                }
            }
        }
        put_all::<S, ROWS, VECTORS>(&tile.sums, last, sums);
    }
}

/// Writes the sums of a tile: the usual ones from registers, any other row by row.
///
/// # Safety
/// As for [`rows`].
#[inline(always)]
unsafe fn put_all<S: Vectors, const ROWS: usize, const VECTORS: usize>(
    to: &Sums,
    last: usize,
    sums: [[S::Vector; VECTORS]; ROWS],
) {
    let is_plain = to.bias.is_null() && !to.relu && to.relu_outputs.is_null();
    let is_full = last == S::LANES;
    // SAFETY: the caller promises that outputs and bias can be used for these rows and columns.
    unsafe {
        if is_plain && is_full && !to.add {
            for row in 0..ROWS {
                for v in 0..VECTORS {
                    S::store(to.out.wrapping_add(row * to.row + v * S::LANES), sums[row][v]);
                }
            }
        } else if is_plain && is_full {
            for row in 0..ROWS {
                for v in 0..VECTORS {
                    let out = to.out.wrapping_add(row * to.row + v * S::LANES);
                    S::store(out, S::add(S::load(out), sums[row][v]));
                }
            }
        } else {
            // Written to memory once here: a loop over rows of `sums` itself would keep all of it in memory during the steps.
            let mut done = MaybeUninit::<[[S::Vector; VECTORS]; ROWS]>::uninit();
            let rows = done.as_mut_ptr().cast::<[S::Vector; VECTORS]>();
            for row in 0..ROWS {
                rows.add(row).write(sums[row]);
            }
            for row in 0..ROWS {
                put::<S, VECTORS>(to, row, last, rows.add(row).read());
            }
        }
    }
}

/// Writes the sums of one row; of the last vector, the first `last` numbers.
///
/// # Safety
/// As for [`rows`]; `row` is one of the tile.
#[inline(always)]
unsafe fn put<S: Vectors, const VECTORS: usize>(to: &Sums, row: usize, last: usize, sums: [S::Vector; VECTORS]) {
    // SAFETY: the caller promises that outputs, bias and outputs of the ReLU can be used for these columns.
    unsafe {
        for v in 0..VECTORS {
            let full = v + 1 < VECTORS || last == S::LANES;
            let load = |from: *const f32| if full { S::load(from) } else { S::load_part(from, last) };
            let at = row * to.row + v * S::LANES;
            let mut sum = sums[v];
            if to.add {
                sum = S::add(load(to.out.add(at)), sum);
            }
            if !to.bias.is_null() {
                sum = S::add(sum, load(to.bias.add(v * S::LANES)));
            }
            if to.relu {
                sum = S::where_positive(sum, sum);
            }
            if !to.relu_outputs.is_null() {
                sum = S::where_positive(load(to.relu_outputs.add(at)), sum);
            }
            if full {
                S::store(to.out.add(at), sum);
            } else {
                S::store_part(to.out.add(at), last, sum);
            }
        }
    }
}

/// Makes the function that computes a tile with some vectors: one instance for each number of rows and vectors.
macro_rules! compute {
    ($vectors:ty, [$($feature:meta)?], two: $two:literal, rows: $($rows:literal)*) => {
        /// Computes a tile.
        ///
        /// # Safety
        /// The CPU has the features that are enabled here, and the tile is sound, as [`Tile`] says.
        $(#[$feature])?
        pub(in crate::tile) unsafe fn compute(tile: &Tile) {
            let lanes = <$vectors as Vectors>::LANES;
            let vectors = tile.columns.div_ceil(lanes);
            let full = tile.factors.right_padded || tile.columns == vectors * lanes;
            let unit = tile.factors.left_row == 1;
            // SAFETY: the same conditions; each instance is called for its own rows and vectors.
            unsafe {
                match (vectors, full, unit, tile.rows) {
                    $((1, true, true, $rows) => rows::<$rows, 1, true, true>(tile),)*
                    $((1, true, false, $rows) => rows::<$rows, 1, true, false>(tile),)*
                    $((1, false, true, $rows) => rows::<$rows, 1, false, true>(tile),)*
                    $((1, false, false, $rows) => rows::<$rows, 1, false, false>(tile),)*
                    $((2, true, true, $rows) if $two => rows::<$rows, 2, true, true>(tile),)*
                    $((2, true, false, $rows) if $two => rows::<$rows, 2, true, false>(tile),)*
                    $((2, false, true, $rows) if $two => rows::<$rows, 2, false, true>(tile),)*
                    $((2, false, false, $rows) if $two => rows::<$rows, 2, false, false>(tile),)*
                    _ => debug_assert!(false, "a tile of {} rows and {} columns", tile.rows, tile.columns),
                }
            }
        }

        /// Computes a tile of `ROWS` rows and `VECTORS` vectors.
        ///
        /// # Safety
        /// As for `compute`.
        $(#[$feature])?
        unsafe fn rows<const ROWS: usize, const VECTORS: usize, const FULL: bool, const UNIT: bool>(tile: &Tile) {
            // SAFETY: the same conditions.
            unsafe { body::rows::<$vectors, ROWS, VECTORS, FULL, UNIT>(tile) }
        }
    };
}
pub(super) use compute;
