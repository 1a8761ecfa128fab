//! Softmax.

use crate::Level;
use crate::lanes;
use crate::level::leveled;
use crate::math::exp;
use crate::parallel::{In, Out, by_rows, check, grain, rows_of};

/// Writes `exp(x)` over its sum, for every row of `columns` numbers.
///
/// ```
/// use phalanx_matmul::{Level, softmax};
///
/// let mut y = [0.0; 4];
/// softmax(Level::detect(), 2, &[1.0, 1.0, 1000.0, 0.0], &mut y);
/// assert_eq!(y, [0.5, 0.5, 1.0, 0.0]);
/// ```
///
/// # Panics
/// If the slices do not have the same complete rows.
pub fn softmax(level: Level, columns: usize, x: &[f32], y: &mut [f32]) {
    let rows = rows_of("softmax", x, columns);
    check("the outputs", y, rows, columns);
    by_rows(rows, grain(4 * columns), (In(x, columns), Out(y, columns)), &|(x, y)| {
        softmax_rows(level, columns, x.0, y.0);
    });
}

/// Writes the gradient of the inputs of [`softmax`] to `dx`, from its outputs `y`.
///
/// ```
/// use phalanx_matmul::{Level, softmax_gradient};
///
/// let mut dx = [0.0; 2];
/// softmax_gradient(Level::detect(), 2, &[0.5, 0.5], &[1.0, 0.0], &mut dx);
/// assert_eq!(dx, [0.25, -0.25]);
/// ```
///
/// # Panics
/// If the slices do not have the same complete rows.
pub fn softmax_gradient(level: Level, columns: usize, y: &[f32], dy: &[f32], dx: &mut [f32]) {
    let rows = rows_of("softmax", y, columns);
    check("the gradient", dy, rows, columns);
    check("the gradient of the inputs", dx, rows, columns);
    let parts = (In(y, columns), In(dy, columns), Out(dx, columns));
    by_rows(rows, grain(columns), parts, &|(y, dy, dx)| gradient_rows(level, columns, y.0, dy.0, dx.0));
}

leveled! {
    fn softmax_rows(columns: usize, x: &[f32], y: &mut [f32]) => softmax_body;
    fn gradient_rows(columns: usize, y: &[f32], dy: &[f32], dx: &mut [f32]) => gradient_body;
}

/// Writes `exp(x - shift)` and returns the sum.
#[inline(always)]
pub(crate) fn exps<const F: bool>(x: &[f32], shift: f32, y: &mut [f32]) -> f32 {
    for (x, y) in x.chunks(lanes::LANES).zip(y.chunks_mut(lanes::LANES)) {
        let mut all = lanes::padded(x, shift);
        for x in &mut all {
            *x = exp::<F>(*x - shift);
        }
        match y.as_mut_array() {
            Some(y) => *y = all,
            None => lanes::copy_part(&all[..y.len()], y),
        }
    }
    lanes::sum(y)
}

#[inline(always)]
fn softmax_body<const F: bool>(columns: usize, x: &[f32], y: &mut [f32]) {
    for (x, y) in x.chunks_exact(columns).zip(y.chunks_exact_mut(columns)) {
        let over = 1.0 / exps::<F>(x, lanes::max(x), y);
        for y in y {
            *y *= over;
        }
    }
}

#[inline(always)]
fn gradient_body<const F: bool>(columns: usize, y: &[f32], dy: &[f32], dx: &mut [f32]) {
    let rows = y.chunks_exact(columns).zip(dy.chunks_exact(columns)).zip(dx.chunks_exact_mut(columns));
    for ((y, dy), dx) in rows {
        let along = lanes::dot::<F>(y, dy);
        for ((dx, &y), &dy) in dx.iter_mut().zip(y).zip(dy) {
            *dx = y * (dy - along);
        }
    }
}
