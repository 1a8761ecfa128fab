//! Interactions of fields: factorization machines, dot products of pairs, and the cross layer.
//!
//! A row has `fields` vectors of `dim` numbers, one after the other.

use crate::Level;
use crate::lanes;
use crate::level::leveled;
use crate::math::fma;
use crate::parallel::{In, Out, by_rows, check, grain};
use std::ops::Range;

/// The shape of a row: fields, each a vector of `dim` numbers.
///
/// ```
/// use phalanx_matmul::{Fields, Level};
///
/// let fields = Fields { fields: 3, dim: 1 };
/// let (mut products, mut sum) = ([0.0; 3], [0.0]);
/// fields.dots(Level::detect(), &[2.0, 3.0, 5.0], &mut products);
/// fields.factorization(Level::detect(), &[2.0, 3.0, 5.0], &mut sum);
/// assert_eq!((products, sum), ([6.0, 10.0, 15.0], [31.0]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// The fields of a row.
    pub fields: usize,
    /// The numbers of a field.
    pub dim: usize,
}

impl Fields {
    /// Returns the number of pairs of fields.
    ///
    /// # Panics
    /// If it does not fit into memory.
    #[must_use]
    pub fn pairs(self) -> usize {
        self.fields.checked_mul(self.fields.saturating_sub(1)).expect("the pairs fit into memory") / 2
    }

    /// Writes the sum of the dot products of all pairs of each row: the second order of a factorization machine.
    ///
    /// # Panics
    /// If the slices do not have the same rows.
    pub fn factorization(self, level: Level, x: &[f32], y: &mut [f32]) {
        let rows = self.check(y.len(), 1, x, "the sums", y);
        by_rows(rows, grain(self.width()), (In(x, self.width()), Out(y, 1)), &|(x, y)| {
            machine(level, self, x.0, y.0);
        });
    }

    /// Writes the gradient of the inputs of [`Self::factorization`].
    ///
    /// ```
    /// use phalanx_matmul::{Fields, Level};
    ///
    /// let mut dx = [0.0; 3];
    /// Fields { fields: 3, dim: 1 }.factorization_gradient(Level::detect(), &[2.0, 3.0, 5.0], &[1.0], &mut dx);
    /// assert_eq!(dx, [8.0, 7.0, 5.0]);
    /// ```
    ///
    /// # Panics
    /// If the slices do not have the same rows.
    pub fn factorization_gradient(self, level: Level, x: &[f32], dy: &[f32], dx: &mut [f32]) {
        let rows = self.check(dy.len(), 1, x, "the gradient", dy);
        check("the gradient of the inputs", dx, rows, self.width());
        let parts = (In(x, self.width()), In(dy, 1), Out(dx, self.width()));
        by_rows(rows, grain(self.width()), parts, &|(x, dy, dx)| machine_slopes(level, self, x.0, dy.0, dx.0));
    }

    /// Writes the dot product of each pair of fields: (1, 0), (2, 0), (2, 1), …
    ///
    /// # Panics
    /// If the slices do not have the same rows.
    pub fn dots(self, level: Level, x: &[f32], y: &mut [f32]) {
        let pairs = self.pairs();
        let rows = self.check(y.len().checked_div(pairs).unwrap_or(0), pairs, x, "the products", y);
        by_rows(rows, grain(pairs * self.dim), (In(x, self.width()), Out(y, pairs)), &|(x, y)| {
            dots(level, self, x.0, y.0);
        });
    }

    /// Writes the gradient of the inputs of [`Self::dots`].
    ///
    /// ```
    /// use phalanx_matmul::{Fields, Level};
    ///
    /// let mut dx = [0.0; 3];
    /// Fields { fields: 3, dim: 1 }.dots_gradient(Level::detect(), &[2.0, 3.0, 5.0], &[1.0, 0.0, 10.0], &mut dx);
    /// assert_eq!(dx, [3.0, 52.0, 30.0]);
    /// ```
    ///
    /// # Panics
    /// If the slices do not have the same rows.
    pub fn dots_gradient(self, level: Level, x: &[f32], dy: &[f32], dx: &mut [f32]) {
        let pairs = self.pairs();
        let rows = self.check(dy.len().checked_div(pairs).unwrap_or(0), pairs, x, "the gradient", dy);
        check("the gradient of the inputs", dx, rows, self.width());
        let parts = (In(x, self.width()), In(dy, pairs), Out(dx, self.width()));
        by_rows(rows, grain(pairs * self.dim), parts, &|(x, dy, dx)| dots_slopes(level, self, x.0, dy.0, dx.0));
    }

    fn width(self) -> usize {
        self.fields.checked_mul(self.dim).expect("a row fits into memory")
    }

    fn check(self, rows: usize, columns: usize, x: &[f32], what: &str, y: &[f32]) -> usize {
        check("the fields", x, rows, self.width());
        check(what, y, rows, columns);
        rows
    }
}

/// Writes `x0 * u + x`, number by number: what a cross layer (DCN) computes of its inputs `x`, the inputs `x0` of the first
/// one, and the output `u` of its dense layer.
///
/// ```
/// use phalanx_matmul::{Level, cross};
/// let mut y = [0.0];
/// cross(Level::detect(), &[2.0], &[3.0], &[1.0], &mut y);
/// assert_eq!(y, [7.0]);
/// ```
///
/// # Panics
/// If the slices have different lengths.
pub fn cross(level: Level, x0: &[f32], u: &[f32], x: &[f32], y: &mut [f32]) {
    for (what, slice) in [("the first inputs", x0), ("the factors", u), ("the inputs", x)] {
        check(what, slice, y.len(), 1);
    }
    let parts = (In(x0, 1), In(u, 1), In(x, 1), Out(y, 1));
    by_rows(x.len(), crate::parallel::GRAIN, parts, &|(x0, u, x, y)| cross_part(level, x0.0, u.0, x.0, y.0));
}

/// Writes the gradient of `u` of a [`cross`] layer, and adds that of `x0` to `dx0`. The gradient of `x` is `dy`.
///
/// ```
/// use phalanx_matmul::{Level, cross_gradient};
/// let (mut du, mut dx0) = ([0.0], [1.0]);
/// cross_gradient(Level::detect(), (&[2.0], &[3.0]), &[10.0], &mut du, &mut dx0);
/// assert_eq!((du, dx0), ([20.0], [31.0]));
/// ```
///
/// # Panics
/// If the slices have different lengths.
pub fn cross_gradient(level: Level, (x0, u): (&[f32], &[f32]), dy: &[f32], du: &mut [f32], dx0: &mut [f32]) {
    for (what, slice) in [("the first inputs", x0), ("the factors", u), ("their gradient", &*du), ("dx0", &*dx0)] {
        check(what, slice, dy.len(), 1);
    }
    let parts = (In(x0, 1), In(u, 1), In(dy, 1), Out(du, 1), Out(dx0, 1));
    by_rows(dy.len(), crate::parallel::GRAIN, parts, &|(x0, u, dy, du, dx0)| {
        cross_slopes(level, x0.0, u.0, dy.0, du.0, dx0.0);
    });
}

leveled! {
    fn machine(shape: Fields, x: &[f32], y: &mut [f32]) => machine_body;
    fn machine_slopes(shape: Fields, x: &[f32], dy: &[f32], dx: &mut [f32]) => machine_slopes_body;
    fn dots(shape: Fields, x: &[f32], y: &mut [f32]) => dots_body;
    fn dots_slopes(shape: Fields, x: &[f32], dy: &[f32], dx: &mut [f32]) => dots_slopes_body;
    fn cross_part(x0: &[f32], u: &[f32], x: &[f32], y: &mut [f32]) => cross_body;
    fn cross_slopes(x0: &[f32], u: &[f32], dy: &[f32], du: &mut [f32], dx0: &mut [f32]) => cross_slopes_body;
}

/// Numbers of a field that are summed up over all fields at once.
const CHUNK: usize = lanes::LANES;

/// The sums over the fields of up to [`CHUNK`] numbers of a row, from `at` on; and the sum of their squares.
#[inline(always)]
fn over_fields<const F: bool>(x: &[f32], dim: usize, at: usize) -> ([f32; CHUNK], [f32; CHUNK]) {
    let (mut sums, mut squares) = ([0.0; CHUNK], [0.0; CHUNK]);
    for field in x.chunks_exact(dim) {
        let field = lanes::padded(&field[at..], 0.0);
        for i in 0..CHUNK {
            sums[i] += field[i];
            squares[i] = fma::<F>(field[i], field[i], squares[i]);
        }
    }
    (sums, squares)
}

#[inline(always)]
fn machine_body<const F: bool>(shape: Fields, x: &[f32], y: &mut [f32]) {
    let width = shape.fields * shape.dim;
    for (row, y) in y.iter_mut().enumerate() {
        let x = &x[row * width..][..width];
        let mut lanes = [0.0; CHUNK];
        for at in (0..shape.dim).step_by(CHUNK) {
            // The sum of a·b over all pairs is ((Σ a)² - Σ a²) / 2.
            let (sums, squares) = over_fields::<F>(x, shape.dim, at);
            for i in 0..CHUNK {
                lanes[i] += fma::<F>(sums[i], sums[i], -squares[i]);
            }
        }
        *y = 0.5 * lanes::sum(&lanes);
    }
}

#[inline(always)]
fn machine_slopes_body<const F: bool>(shape: Fields, x: &[f32], dy: &[f32], dx: &mut [f32]) {
    let width = shape.fields * shape.dim;
    for (row, &dy) in dy.iter().enumerate() {
        let (x, dx) = (&x[row * width..][..width], &mut dx[row * width..][..width]);
        for at in (0..shape.dim).step_by(CHUNK) {
            let (sums, _) = over_fields::<F>(x, shape.dim, at);
            for (x, dx) in x.chunks_exact(shape.dim).zip(dx.chunks_exact_mut(shape.dim)) {
                for ((dx, &x), &sum) in dx[at..].iter_mut().zip(&x[at..]).zip(&sums) {
                    *dx = dy * (sum - x);
                }
            }
        }
    }
}

/// The most fields whose products are computed in registers; of more, each product is a sum of its own.
const MOST: usize = 64;

#[inline(always)]
fn dots_body<const F: bool>(shape: Fields, x: &[f32], y: &mut [f32]) {
    let (width, dim) = (shape.fields * shape.dim, shape.dim);
    for (row, y) in y.chunks_exact_mut(shape.pairs()).enumerate() {
        let x = &x[row * width..][..width];
        if shape.fields <= MOST {
            y.fill(0.0);
            for at in (0..dim).step_by(CHUNK) {
                add_products::<F>(x, dim, at, y);
            }
            continue;
        }
        let mut start = 0;
        for a in 1..shape.fields {
            for b in 0..a {
                y[start + b] = lanes::dot::<F>(&x[a * dim..][..dim], &x[b * dim..][..dim]);
            }
            start += a;
        }
    }
}

/// Adds the products of up to [`CHUNK`] numbers of each field, from `at` on, to the sums of all pairs. A vector has the same
/// number of sixteen fields, so nothing is summed up across lanes.
#[inline(always)]
fn add_products<const F: bool>(x: &[f32], dim: usize, at: usize, y: &mut [f32]) {
    let count = CHUNK.min(dim - at);
    let mut turned = [[0.0; MOST]; CHUNK];
    for (field, x) in x.chunks_exact(dim).enumerate() {
        for i in 0..count {
            turned[i][field] = x[at + i];
        }
    }
    let mut start = 0;
    for (a, own) in x.chunks_exact(dim).enumerate().skip(1) {
        for first in (0..a).step_by(CHUNK) {
            let (mut sums, mut more) = ([0.0; CHUNK], [0.0; CHUNK]);
            for i in (0..count).step_by(2) {
                // The number after an odd last one is 0.
                let next = if i + 1 < count { own[at + i + 1] } else { 0.0 };
                for lane in 0..CHUNK {
                    sums[lane] = fma::<F>(own[at + i], turned[i][first + lane], sums[lane]);
                    more[lane] = fma::<F>(next, turned[i + 1][first + lane], more[lane]);
                }
            }
            for ((y, sum), more) in y[start + first..start + a].iter_mut().zip(&sums).zip(&more) {
                *y += sum + more;
            }
        }
        start += a;
    }
}

/// Fields whose gradients are computed together.
const TOGETHER: usize = 4;

#[inline(always)]
fn dots_slopes_body<const F: bool>(shape: Fields, x: &[f32], dy: &[f32], dx: &mut [f32]) {
    let (width, dim) = (shape.fields * shape.dim, shape.dim);
    if dim == 0 {
        return;
    }
    for (row, dy) in dy.chunks_exact(shape.pairs()).enumerate() {
        let (x, dx) = (&x[row * width..][..width], &mut dx[row * width..][..width]);
        dx.fill(0.0);
        for (at, dx) in dx.chunks_mut(TOGETHER * dim).enumerate() {
            for start in (0..shape.fields).step_by(MOST) {
                let others = start..shape.fields.min(start + MOST);
                let mut factors = [[0.0; TOGETHER]; MOST];
                for i in 0..dx.len() / dim {
                    factors_of(at * TOGETHER + i, others.clone(), dy, i, &mut factors);
                }
                for at in (0..dim).step_by(CHUNK) {
                    add_fields::<F>(&x[start * dim..others.end * dim], dim, at, &factors, dx);
                }
            }
        }
    }
}

/// Writes the gradients of the products of field `a` with others. Of pair (high, low), the place is high (high - 1) / 2 + low;
/// a field has no product with itself.
#[inline(always)]
fn factors_of(a: usize, others: Range<usize>, dy: &[f32], i: usize, factors: &mut [[f32; TOGETHER]; MOST]) {
    let (start, before) = (others.start, a * a.saturating_sub(1) / 2);
    for b in start..others.end.min(a) {
        factors[b - start][i] = dy[before + b];
    }
    let first = start.max(a + 1);
    let mut place = first * first.saturating_sub(1) / 2 + a;
    for b in first..others.end {
        factors[b - start][i] = dy[place];
        place += b;
    }
}

/// Adds the numbers of all fields, from `at` on, times their factors, to each of a few gradients.
#[inline(always)]
fn add_fields<const F: bool>(x: &[f32], dim: usize, at: usize, factors: &[[f32; TOGETHER]; MOST], dx: &mut [f32]) {
    let mut sums = [[0.0; CHUNK]; TOGETHER];
    for (x, factors) in x.chunks_exact(dim).zip(factors) {
        let x = lanes::padded(&x[at..], 0.0);
        for i in 0..TOGETHER {
            for lane in 0..CHUNK {
                sums[i][lane] = fma::<F>(factors[i], x[lane], sums[i][lane]);
            }
        }
    }
    for (dx, sums) in dx.chunks_exact_mut(dim).zip(&sums) {
        for (dx, sum) in dx[at..].iter_mut().zip(sums) {
            *dx += sum;
        }
    }
}

#[inline(always)]
fn cross_body<const F: bool>(x0: &[f32], u: &[f32], x: &[f32], y: &mut [f32]) {
    for (((y, &x0), &u), &x) in y.iter_mut().zip(x0).zip(u).zip(x) {
        *y = fma::<F>(x0, u, x);
    }
}

#[inline(always)]
fn cross_slopes_body<const F: bool>(x0: &[f32], u: &[f32], dy: &[f32], du: &mut [f32], dx0: &mut [f32]) {
    for ((((du, dx0), &x0), &u), &dy) in du.iter_mut().zip(dx0).zip(x0).zip(u).zip(dy) {
        *du = dy * x0;
        *dx0 = fma::<F>(dy, u, *dx0);
    }
}
