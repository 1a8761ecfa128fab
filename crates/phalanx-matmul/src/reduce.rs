//! Sums over all numbers or over columns, and the scaling of gradients to a norm.
//!
//! The order of every sum depends on the shape alone, not on the number of threads.

use crate::activation::relu_slope;
use crate::level::leveled;
use crate::math::fma;
use crate::parallel::{GRAIN, In, Out, by_rows, check, rows_of};
use crate::{Level, lanes};
use std::ops::Range;

/// Numbers that are summed up in 32-bit floats before the sum is continued in 64-bit ones.
const RUN: usize = 4096;

/// Returns the sum.
///
/// ```
/// use phalanx_matmul::{Level, sum};
/// assert_eq!(sum(Level::detect(), &[0.5; 100_000]), 50_000.0);
/// ```
#[must_use]
pub fn sum(level: Level, x: &[f32]) -> f64 {
    in_tree(x, &|x| sum_of(level, x))
}

/// Returns the sum of the squares.
///
/// ```
/// use phalanx_matmul::{Level, squared_norm};
/// assert_eq!(squared_norm(Level::detect(), &[3.0, 4.0]), 25.0);
/// ```
#[must_use]
pub fn squared_norm(level: Level, x: &[f32]) -> f64 {
    in_tree(x, &|x| squares_of(level, x))
}

/// Adds the sums of halves until they are short.
fn in_tree(x: &[f32], leaf: &(impl Fn(&[f32]) -> f64 + Sync)) -> f64 {
    if x.len() <= 4 * GRAIN {
        return leaf(x);
    }
    let (a, b) = x.split_at(x.len() / 2);
    let (a, b) = rayon::join(|| in_tree(a, leaf), || in_tree(b, leaf));
    a + b
}

/// Multiplies every number by a factor.
///
/// ```
/// use phalanx_matmul::{Level, scale};
/// let mut x = [1.0, 2.0];
/// scale(Level::detect(), 0.5, &mut x);
/// assert_eq!(x, [0.5, 1.0]);
/// ```
pub fn scale(level: Level, factor: f32, x: &mut [f32]) {
    by_rows(x.len(), 4 * GRAIN, Out(x, 1), &|x| scale_part(level, factor, x.0));
}

/// Adds `factor` times `x` to `y`.
///
/// ```
/// use phalanx_matmul::{Level, add_scaled};
/// let mut y = [1.0, 2.0];
/// add_scaled(Level::detect(), 2.0, &[1.0, -1.0], &mut y);
/// assert_eq!(y, [3.0, 0.0]);
/// ```
///
/// # Panics
/// If the slices have different lengths.
pub fn add_scaled(level: Level, factor: f32, x: &[f32], y: &mut [f32]) {
    check("the addend", x, y.len(), 1);
    by_rows(x.len(), 4 * GRAIN, (In(x, 1), Out(y, 1)), &|(x, y)| add_part(level, factor, x.0, y.0));
}

/// Scales slices together so that the norm of all their numbers is at most `limit`, and returns the norm before. A norm
/// that is not finite makes all numbers NaN, as in TensorFlow, so that it is noticed.
///
/// ```
/// use phalanx_matmul::{Level, clip_by_norm};
/// let (mut a, mut b) = ([3.0], [4.0]);
/// assert_eq!(clip_by_norm(Level::detect(), 1.0, &mut [&mut a, &mut b]), 5.0);
/// assert!((a[0] - 0.6).abs() < 1e-6 && (b[0] - 0.8).abs() < 1e-6);
/// ```
pub fn clip_by_norm(level: Level, limit: f32, slices: &mut [&mut [f32]]) -> f64 {
    let norm = slices.iter().map(|x| squared_norm(level, x)).sum::<f64>().sqrt();
    let factor = if norm.is_finite() { f64::from(limit) / norm.max(f64::from(limit)) } else { f64::NAN };
    // Of two limits of 0 the quotient is NaN, and there is nothing to scale.
    if norm > f64::from(limit) || !norm.is_finite() {
        slices.iter_mut().for_each(|x| scale(level, factor as f32, x));
    }
    norm
}

/// Writes the sum of every column: the gradient of a bias.
///
/// ```
/// use phalanx_matmul::{Level, column_sums};
/// let mut sums = [0.0; 2];
/// column_sums(Level::detect(), &[1.0, 2.0, 3.0, 4.0], &mut sums);
/// assert_eq!(sums, [4.0, 6.0]);
/// ```
///
/// # Panics
/// If `x` does not consist of complete rows, of as many numbers as `sums` has.
pub fn column_sums(level: Level, x: &[f32], sums: &mut [f32]) {
    let columns = sums.len();
    let rows = rows_of("column sums", x, columns);
    if columns == 1 {
        sums[0] = sum(level, x) as f32;
        return;
    }
    fold_columns(rows, columns, [sums], &|rows, columns_of, [out]| {
        sum_columns(level, columns, rows, columns_of, x, out);
    });
}

/// Propagates a gradient back through a ReLU with these outputs, in place, and writes the sum of every column of the result:
/// what the layer before needs.
///
/// ```
/// use phalanx_matmul::{Level, relu_gradient_sums};
/// let (mut dy, mut sums) = ([1.0, 2.0, 3.0, 4.0], [0.0; 2]);
/// relu_gradient_sums(Level::detect(), &[1.0, 0.0, 0.5, 2.0], &mut dy, &mut sums);
/// assert_eq!((dy, sums), ([1.0, 0.0, 3.0, 4.0], [4.0, 4.0]));
/// ```
///
/// # Panics
/// If the slices do not have the same complete rows.
pub fn relu_gradient_sums(level: Level, outputs: &[f32], dy: &mut [f32], sums: &mut [f32]) {
    let columns = sums.len();
    let rows = rows_of("the outputs", outputs, columns);
    check("the gradient", dy, rows, columns);
    by_rows(dy.len(), 4 * GRAIN, (In(outputs, 1), Out(dy, 1)), &|(y, dy)| mask_part(level, y.0, dy.0));
    column_sums(level, dy, sums);
}

/// Columns that are summed up at once.
pub(crate) const BLOCK: usize = 64;
/// Groups of rows with sums of their own.
const GROUPS: usize = 8;

/// Computes `N` sums over the rows for each column: `part` adds those of a range of rows and at most [`BLOCK`] columns to
/// what it is given. The rows are split into groups, whose sums are added in the order of the rows.
pub(crate) fn fold_columns<const N: usize>(
    rows: usize,
    columns: usize,
    outputs: [&mut [f32]; N],
    part: &(impl Fn(Range<usize>, Range<usize>, &mut [[f64; BLOCK]; N]) + Sync),
) {
    // A column of few rows is not split; the number of groups depends on the shape alone.
    let groups = (rows / 256).clamp(1, GROUPS);
    let length = rows.div_ceil(groups).max(1);
    let blocks = columns.div_ceil(BLOCK);
    let fold = |range: Range<usize>, mut outputs: [&mut [f32]; N]| {
        let start = range.start * BLOCK;
        for block in range {
            let of_columns = block * BLOCK..columns.min((block + 1) * BLOCK);
            let mut sums = [[[0.0_f64; BLOCK]; N]; GROUPS];
            let work = |groups: Range<usize>, sums: &mut [[[f64; BLOCK]; N]]| {
                for (group, sums) in groups.zip(sums) {
                    part((group * length).min(rows)..((group + 1) * length).min(rows), of_columns.clone(), sums);
                }
            };
            if blocks == 1 && rows * columns > 2 * GRAIN {
                by_rows(groups, 1, (0..groups, Out(&mut sums[..groups], 1)), &|(groups, sums)| work(groups, sums.0));
            } else {
                work(0..groups, &mut sums);
            }
            for (which, output) in outputs.iter_mut().enumerate() {
                for (i, column) in of_columns.clone().enumerate() {
                    output[column - start] = sums[..groups].iter().map(|sums| sums[which][i]).sum::<f64>() as f32;
                }
            }
        }
    };
    split_blocks(0..blocks, rows, outputs, &fold);
}

/// Splits blocks of columns over threads.
fn split_blocks<const N: usize>(
    blocks: Range<usize>,
    rows: usize,
    outputs: [&mut [f32]; N],
    fold: &(impl Fn(Range<usize>, [&mut [f32]; N]) + Sync),
) {
    let numbers = rows.saturating_mul(blocks.len() * BLOCK);
    if blocks.len() < 2 || numbers <= 2 * GRAIN || rayon::current_num_threads() == 1 {
        return fold(blocks, outputs);
    }
    let half = blocks.len() / 2;
    let middle = blocks.start + half;
    let mut outputs = outputs.map(|output| output.split_at_mut(half * BLOCK));
    let first = outputs.each_mut().map(|(a, _)| std::mem::take(a));
    let second = outputs.map(|(_, b)| b);
    rayon::join(
        || split_blocks(blocks.start..middle, rows, first, fold),
        || split_blocks(middle..blocks.end, rows, second, fold),
    );
}

leveled! {
    fn sum_of(x: &[f32]) -> f64 => sum_body;
    fn squares_of(x: &[f32]) -> f64 => squares_body;
    fn scale_part(factor: f32, x: &mut [f32]) => scale_body;
    fn add_part(factor: f32, x: &[f32], y: &mut [f32]) => add_body;
    fn mask_part(y: &[f32], dy: &mut [f32]) => mask_body;
    fn sum_columns(width: usize, rows: Range<usize>, columns: Range<usize>, x: &[f32], sums: &mut [f64; BLOCK])
        => sum_columns_body;
}

#[inline(always)]
fn sum_body<const F: bool>(x: &[f32]) -> f64 {
    let mut sum = 0.0;
    for x in x.chunks(RUN) {
        sum += f64::from(lanes::sum(x));
    }
    sum
}

#[inline(always)]
fn squares_body<const F: bool>(x: &[f32]) -> f64 {
    let mut sum = 0.0;
    for x in x.chunks(RUN) {
        sum += f64::from(lanes::dot::<F>(x, x));
    }
    sum
}

#[inline(always)]
fn scale_body<const F: bool>(factor: f32, x: &mut [f32]) {
    for x in x {
        *x *= factor;
    }
}

#[inline(always)]
fn add_body<const F: bool>(factor: f32, x: &[f32], y: &mut [f32]) {
    for (y, &x) in y.iter_mut().zip(x) {
        *y = fma::<F>(factor, x, *y);
    }
}

#[inline(always)]
fn mask_body<const F: bool>(y: &[f32], dy: &mut [f32]) {
    for (dy, &y) in dy.iter_mut().zip(y) {
        *dy = relu_slope(y, *dy);
    }
}

/// Adds terms to the sums of a range of columns, for a range of rows: in 32-bit floats for 128 rows, then in 64-bit ones.
/// Each input is a slice and the distance between its rows; a distance of 0 is one row for all.
#[inline(always)]
pub(crate) fn add_columns<const N: usize, const I: usize>(
    rows: Range<usize>,
    columns: Range<usize>,
    inputs: [(&[f32], usize); I],
    sums: &mut [[f64; BLOCK]; N],
    terms: impl Fn([f32; I]) -> [f32; N],
) {
    for start in rows.clone().step_by(128) {
        let rows = start..rows.end.min(start + 128);
        let mut at = columns.start;
        while at + BLOCK <= columns.end {
            add_run::<N, I, BLOCK>(rows.clone(), at, inputs, sums, at - columns.start, &terms);
            at += BLOCK;
        }
        while at + 16 <= columns.end {
            add_run::<N, I, 16>(rows.clone(), at, inputs, sums, at - columns.start, &terms);
            at += 16;
        }
        while at + 4 <= columns.end {
            add_run::<N, I, 4>(rows.clone(), at, inputs, sums, at - columns.start, &terms);
            at += 4;
        }
        while at < columns.end {
            add_run::<N, I, 1>(rows.clone(), at, inputs, sums, at - columns.start, &terms);
            at += 1;
        }
    }
}

#[inline(always)]
fn add_run<const N: usize, const I: usize, const W: usize>(
    rows: Range<usize>,
    column: usize,
    inputs: [(&[f32], usize); I],
    sums: &mut [[f64; BLOCK]; N],
    place: usize,
    terms: &impl Fn([f32; I]) -> [f32; N],
) {
    let mut run = [[0.0_f32; W]; N];
    for row in rows {
        let lines: [&[f32; W]; I] =
            inputs.map(|(x, next)| x[row * next + column..].first_chunk().expect("a complete row"));
        for i in 0..W {
            let terms = terms(lines.map(|line| line[i]));
            for which in 0..N {
                run[which][i] += terms[which];
            }
        }
    }
    for (sums, run) in sums.iter_mut().zip(&run) {
        for (sum, &run) in sums[place..].iter_mut().zip(run) {
            *sum += f64::from(run);
        }
    }
}

#[inline(always)]
fn sum_columns_body<const F: bool>(
    width: usize,
    rows: Range<usize>,
    columns: Range<usize>,
    x: &[f32],
    sums: &mut [f64; BLOCK],
) {
    add_columns(rows, columns, [(x, width)], std::array::from_mut(sums), |x| x);
}
