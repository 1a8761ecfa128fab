//! Batch and layer normalization.

use crate::Level;
use crate::lanes;
use crate::level::leveled;
use crate::math::fma;
use crate::parallel::{In, Out, by_rows, check, grain, rows_of};
use crate::reduce::{BLOCK, add_columns, fold_columns};
use std::ops::Range;

/// Normalizes each of `channels` columns over all rows, by the statistics of these rows (training) or by given ones
/// (inference).
///
/// ```
/// use phalanx_matmul::{BatchNorm, Level};
///
/// let norm = BatchNorm { channels: 1, epsilon: 0.0, gamma: None, beta: Some(&[5.0]) };
/// let (mut y, mut mean, mut variance) = ([0.0; 2], [0.0], [0.0]);
/// norm.statistics(Level::detect(), &[1.0, 3.0], &mut mean, &mut variance);
/// norm.forward(Level::detect(), &[1.0, 3.0], &mean, &variance, &mut y);
/// assert_eq!((mean, variance, y), ([2.0], [1.0], [4.0, 6.0]));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct BatchNorm<'a> {
    /// The number of columns.
    pub channels: usize,
    /// The addend of the variance.
    pub epsilon: f32,
    /// A trained factor for each channel.
    pub gamma: Option<&'a [f32]>,
    /// A trained addend for each channel.
    pub beta: Option<&'a [f32]>,
}

impl BatchNorm<'_> {
    /// Writes the mean and the variance of each channel: the squares are divided by the number of rows. Without rows both
    /// are 0.
    ///
    /// # Panics
    /// If the slices do not have the same channels.
    pub fn statistics(&self, level: Level, x: &[f32], mean: &mut [f32], variance: &mut [f32]) {
        let rows = self.check(x);
        let channels = self.channels;
        check("the mean", mean, channels, 1);
        check("the variance", variance, channels, 1);
        let over = 1.0 / rows.max(1) as f32;
        fold_columns(rows, channels, [&mut *mean], &|rows, columns, sums| {
            moments(level, channels, rows, columns, x, None, sums)
        });
        scale_all(mean, over);
        let centers = Some(&*mean);
        fold_columns(rows, channels, [&mut *variance], &|rows, columns, sums| {
            moments(level, channels, rows, columns, x, centers, sums);
        });
        scale_all(variance, over);
    }

    /// Writes the normalized numbers.
    ///
    /// # Panics
    /// If the slices do not have the same channels and rows.
    pub fn forward(&self, level: Level, x: &[f32], mean: &[f32], variance: &[f32], y: &mut [f32]) {
        let rows = self.check(x);
        let channels = self.channels;
        check("the mean", mean, channels, 1);
        check("the variance", variance, channels, 1);
        check("the outputs", y, rows, channels);
        by_rows(rows, grain(channels), (In(x, channels), Out(y, channels)), &|(x, y)| {
            normalize(level, self, x.0, mean, variance, y.0);
        });
    }

    /// Writes the gradients of the training step: of the inputs, which may be left out, and of `gamma` and `beta`, which are
    /// written whether or not the layer has them, because the gradient of the inputs needs them. `mean` and `variance` are
    /// those of [`Self::statistics`].
    ///
    /// ```
    /// use phalanx_matmul::{BatchNorm, Level};
    ///
    /// let norm = BatchNorm { channels: 1, epsilon: 0.0, gamma: None, beta: None };
    /// let (x, mut dx, mut d_gamma, mut d_beta) = ([1.0, 3.0], [9.0; 2], [0.0], [0.0]);
    /// norm.gradient(Level::detect(), (&x, &[2.0], &[1.0]), &[1.0, 4.0], Some(&mut dx), (&mut d_gamma, &mut d_beta));
    /// assert_eq!((d_gamma, d_beta, dx), ([3.0], [5.0], [0.0, 0.0]));
    /// ```
    ///
    /// # Panics
    /// If the slices do not have the same channels and rows.
    pub fn gradient(
        &self,
        level: Level,
        (x, mean, variance): (&[f32], &[f32], &[f32]),
        dy: &[f32],
        dx: Option<&mut [f32]>,
        (d_gamma, d_beta): (&mut [f32], &mut [f32]),
    ) {
        let rows = self.check(x);
        let channels = self.channels;
        for (what, slice) in [("the mean", mean), ("the variance", variance), ("gamma", &*d_gamma), ("beta", &*d_beta)]
        {
            check(what, slice, channels, 1);
        }
        check("the gradient", dy, rows, channels);
        fold_columns(rows, channels, [&mut *d_gamma, &mut *d_beta], &|rows, columns, sums| {
            slopes(level, channels, rows, columns, x, mean, dy, sums);
        });
        for (d_gamma, &variance) in d_gamma.iter_mut().zip(variance) {
            *d_gamma /= (variance + self.epsilon).sqrt();
        }
        let Some(dx) = dx else { return };
        check("the gradient of the inputs", dx, rows, channels);
        let (d_gamma, d_beta, over) = (&*d_gamma, &*d_beta, 1.0 / rows.max(1) as f32);
        by_rows(rows, grain(channels), (In(x, channels), In(dy, channels), Out(dx, channels)), &|(x, dy, dx)| {
            batch_inputs(level, self, over, x.0, dy.0, [mean, variance, d_gamma, d_beta], dx.0);
        });
    }

    fn check(&self, x: &[f32]) -> usize {
        self.gamma.inspect(|gamma| check("gamma", gamma, self.channels, 1));
        self.beta.inspect(|beta| check("beta", beta, self.channels, 1));
        rows_of("batch normalization", x, self.channels)
    }
}

fn scale_all(x: &mut [f32], factor: f32) {
    x.iter_mut().for_each(|x| *x *= factor);
}

/// Normalizes each row of `columns` numbers by its own mean and variance.
///
/// ```
/// use phalanx_matmul::{LayerNorm, Level};
///
/// let norm = LayerNorm { columns: 2, epsilon: 0.0, gamma: None, beta: None };
/// let (mut y, mut kept) = ([0.0; 4], [0.0; 4]);
/// norm.forward(Level::detect(), &[1.0, 3.0, 0.0, 8.0], &mut y, &mut kept);
/// assert_eq!(y, [-1.0, 1.0, -1.0, 1.0]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LayerNorm<'a> {
    /// The numbers of a row.
    pub columns: usize,
    /// The addend of the variance.
    pub epsilon: f32,
    /// A trained factor for each column.
    pub gamma: Option<&'a [f32]>,
    /// A trained addend for each column.
    pub beta: Option<&'a [f32]>,
}

impl LayerNorm<'_> {
    /// Writes the normalized rows, and what the gradient needs of each row to `kept`: its mean, and 1 over its deviation.
    ///
    /// # Panics
    /// If the slices do not have the same rows; `kept` has two numbers for each.
    pub fn forward(&self, level: Level, x: &[f32], y: &mut [f32], kept: &mut [f32]) {
        let (rows, columns) = (self.check(x), self.columns);
        check("the outputs", y, rows, columns);
        check("mean and deviation", kept, rows, 2);
        by_rows(rows, grain(columns), (In(x, columns), Out(y, columns), Out(kept, 2)), &|(x, y, kept)| {
            layer_forward(level, self, x.0, y.0, kept.0);
        });
    }

    /// Writes the gradients of the inputs, of `gamma` and of `beta`.
    ///
    /// ```
    /// use phalanx_matmul::{LayerNorm, Level};
    ///
    /// let norm = LayerNorm { columns: 2, epsilon: 0.0, gamma: None, beta: None };
    /// let (x, kept, mut dx, mut d_gamma, mut d_beta) = ([1.0, 3.0], [2.0, 1.0], [9.0; 2], [0.0; 2], [0.0; 2]);
    /// norm.gradient(Level::detect(), (&x, &kept), &[1.0, 4.0], &mut dx, (&mut d_gamma, &mut d_beta));
    /// assert_eq!((d_gamma, d_beta, dx), ([-1.0, 4.0], [1.0, 4.0], [0.0, 0.0]));
    /// ```
    ///
    /// # Panics
    /// If the slices do not have the same columns and rows.
    pub fn gradient(
        &self,
        level: Level,
        (x, kept): (&[f32], &[f32]),
        dy: &[f32],
        dx: &mut [f32],
        (d_gamma, d_beta): (&mut [f32], &mut [f32]),
    ) {
        let (rows, columns) = (self.check(x), self.columns);
        check("mean and deviation", kept, rows, 2);
        check("the gradient", dy, rows, columns);
        check("the gradient of the inputs", dx, rows, columns);
        check("gamma", d_gamma, columns, 1);
        check("beta", d_beta, columns, 1);
        let parts = (In(x, columns), In(kept, 2), In(dy, columns), Out(dx, columns));
        by_rows(rows, grain(columns), parts, &|(x, kept, dy, dx)| layer_inputs(level, self, x.0, kept.0, dy.0, dx.0));
        fold_columns(rows, columns, [d_gamma, d_beta], &|rows, of_columns, sums| {
            layer_slopes(level, columns, rows, of_columns, x, kept, dy, sums);
        });
    }

    fn check(&self, x: &[f32]) -> usize {
        self.gamma.inspect(|gamma| check("gamma", gamma, self.columns, 1));
        self.beta.inspect(|beta| check("beta", beta, self.columns, 1));
        rows_of("layer normalization", x, self.columns)
    }
}

leveled! {
    fn moments(
        width: usize, rows: Range<usize>, columns: Range<usize>, x: &[f32], center: Option<&[f32]>,
        sums: &mut [[f64; BLOCK]; 1]
    ) => moments_body;
    fn slopes(
        width: usize, rows: Range<usize>, columns: Range<usize>, x: &[f32], mean: &[f32], dy: &[f32],
        sums: &mut [[f64; BLOCK]; 2]
    ) => slopes_body;
    fn normalize(norm: &BatchNorm<'_>, x: &[f32], mean: &[f32], variance: &[f32], y: &mut [f32]) => normalize_body;
    fn batch_inputs(
        norm: &BatchNorm<'_>, over: f32, x: &[f32], dy: &[f32], statistics: [&[f32]; 4], dx: &mut [f32]
    ) => batch_inputs_body;
    fn layer_forward(norm: &LayerNorm<'_>, x: &[f32], y: &mut [f32], kept: &mut [f32]) => layer_forward_body;
    fn layer_inputs(norm: &LayerNorm<'_>, x: &[f32], kept: &[f32], dy: &[f32], dx: &mut [f32]) => layer_inputs_body;
    fn layer_slopes(
        width: usize, rows: Range<usize>, columns: Range<usize>, x: &[f32], kept: &[f32], dy: &[f32],
        sums: &mut [[f64; BLOCK]; 2]
    ) => layer_slopes_body;
}

#[inline(always)]
fn moments_body<const F: bool>(
    width: usize,
    rows: Range<usize>,
    columns: Range<usize>,
    x: &[f32],
    center: Option<&[f32]>,
    sums: &mut [[f64; BLOCK]; 1],
) {
    match center {
        None => add_columns(rows, columns, [(x, width)], sums, |x| x),
        Some(mean) => add_columns(rows, columns, [(x, width), (mean, 0)], sums, |[x, mean]| {
            let apart = x - mean;
            [apart * apart]
        }),
    }
}

#[inline(always)]
fn slopes_body<const F: bool>(
    width: usize,
    rows: Range<usize>,
    columns: Range<usize>,
    x: &[f32],
    mean: &[f32],
    dy: &[f32],
    sums: &mut [[f64; BLOCK]; 2],
) {
    let inputs = [(x, width), (mean, 0), (dy, width)];
    add_columns(rows, columns, inputs, sums, |[x, mean, dy]| [(x - mean) * dy, dy]);
}

/// Columns for which factors are prepared at once.
const CHUNK: usize = 64;

/// Calls `work` for ranges of at most [`CHUNK`] columns.
#[inline(always)]
fn chunks_of(columns: usize) -> impl Iterator<Item = Range<usize>> {
    (0..columns).step_by(CHUNK).map(move |start| start..columns.min(start + CHUNK))
}

/// A number for each of a range of columns.
#[inline(always)]
fn prepared(range: &Range<usize>, number: impl Fn(usize) -> f32) -> [f32; CHUNK] {
    let mut all = [0.0; CHUNK];
    for (out, column) in all.iter_mut().zip(range.clone()) {
        *out = number(column);
    }
    all
}

#[inline(always)]
fn of(weights: Option<&[f32]>, column: usize, otherwise: f32) -> f32 {
    weights.map_or(otherwise, |weights| weights[column])
}

#[inline(always)]
fn normalize_body<const F: bool>(norm: &BatchNorm<'_>, x: &[f32], mean: &[f32], variance: &[f32], y: &mut [f32]) {
    for range in chunks_of(norm.channels) {
        let means = prepared(&range, |i| mean[i]);
        let scales = prepared(&range, |i| of(norm.gamma, i, 1.0) / (variance[i] + norm.epsilon).sqrt());
        let betas = prepared(&range, |i| of(norm.beta, i, 0.0));
        for (x, y) in x.chunks_exact(norm.channels).zip(y.chunks_exact_mut(norm.channels)) {
            let columns = y[range.clone()].iter_mut().zip(&x[range.clone()]);
            for ((((y, &x), &mean), &scale), &beta) in columns.zip(&means).zip(&scales).zip(&betas) {
                *y = fma::<F>(x - mean, scale, beta);
            }
        }
    }
}

#[inline(always)]
fn batch_inputs_body<const F: bool>(
    norm: &BatchNorm<'_>,
    over: f32,
    x: &[f32],
    dy: &[f32],
    [mean, variance, d_gamma, d_beta]: [&[f32]; 4],
    dx: &mut [f32],
) {
    let width = norm.channels;
    for range in chunks_of(width) {
        let means = prepared(&range, |i| mean[i]);
        let scales = prepared(&range, |i| of(norm.gamma, i, 1.0) / (variance[i] + norm.epsilon).sqrt());
        let along = prepared(&range, |i| over * d_gamma[i] / (variance[i] + norm.epsilon).sqrt());
        let level = prepared(&range, |i| over * d_beta[i]);
        let rows = x.chunks_exact(width).zip(dy.chunks_exact(width)).zip(dx.chunks_exact_mut(width));
        for ((x, dy), dx) in rows {
            let columns = dx[range.clone()].iter_mut().zip(&x[range.clone()]).zip(&dy[range.clone()]);
            let columns = columns.zip(&means).zip(&scales).zip(&along).zip(&level);
            for ((((((dx, &x), &dy), &mean), &scale), &along), &level) in columns {
                *dx = scale * (fma::<F>(mean - x, along, dy) - level);
            }
        }
    }
}

#[inline(always)]
fn layer_forward_body<const F: bool>(norm: &LayerNorm<'_>, x: &[f32], y: &mut [f32], kept: &mut [f32]) {
    let (columns, over) = (norm.columns, 1.0 / norm.columns as f32);
    let rows = x.chunks_exact(columns).zip(y.chunks_exact_mut(columns)).zip(kept.as_chunks_mut::<2>().0);
    for ((x, y), kept) in rows {
        let mean = lanes::sum(x) * over;
        for (y, &x) in y.iter_mut().zip(x) {
            *y = x - mean;
        }
        let scale = 1.0 / fma::<F>(lanes::dot::<F>(y, y), over, norm.epsilon).sqrt();
        *kept = [mean, scale];
        match norm.gamma {
            None => y.iter_mut().for_each(|y| *y *= scale),
            Some(gamma) => y.iter_mut().zip(gamma).for_each(|(y, &gamma)| *y *= scale * gamma),
        }
        if let Some(beta) = norm.beta {
            y.iter_mut().zip(beta).for_each(|(y, &beta)| *y += beta);
        }
    }
}

#[inline(always)]
fn layer_inputs_body<const F: bool>(norm: &LayerNorm<'_>, x: &[f32], kept: &[f32], dy: &[f32], dx: &mut [f32]) {
    let (columns, over) = (norm.columns, 1.0 / norm.columns as f32);
    let rows = x.chunks_exact(columns).zip(dy.chunks_exact(columns)).zip(dx.chunks_exact_mut(columns));
    for (((x, dy), dx), &[mean, scale]) in rows.zip(kept.as_chunks::<2>().0) {
        match norm.gamma {
            None => dx.copy_from_slice(dy),
            Some(gamma) => dx.iter_mut().zip(dy).zip(gamma).for_each(|((dx, &dy), &gamma)| *dx = dy * gamma),
        }
        // The projection on the centered row is that on the row, less that on its mean.
        let (total, along) = (lanes::sum(dx), centered_dot::<F>(x, mean, dx));
        let (level, slope) = (total * over, along * over * scale * scale);
        for (dx, &x) in dx.iter_mut().zip(x) {
            *dx = scale * (fma::<F>(mean - x, slope, *dx) - level);
        }
    }
}

/// The sum of `(x - mean) y`.
#[inline(always)]
fn centered_dot<const F: bool>(x: &[f32], mean: f32, y: &[f32]) -> f32 {
    let mut sum = 0.0;
    for (x, y) in x.chunks(CHUNK).zip(y.chunks(CHUNK)) {
        let mut apart = [0.0; CHUNK];
        for (apart, &x) in apart.iter_mut().zip(x) {
            *apart = x - mean;
        }
        sum += lanes::dot::<F>(&apart[..x.len()], y);
    }
    sum
}

#[inline(always)]
fn layer_slopes_body<const F: bool>(
    width: usize,
    rows: Range<usize>,
    columns: Range<usize>,
    x: &[f32],
    kept: &[f32],
    dy: &[f32],
    sums: &mut [[f64; BLOCK]; 2],
) {
    for row in rows {
        let [mean, scale] = [kept[2 * row], kept[2 * row + 1]];
        let at = row * width;
        let line = x[at + columns.start..at + columns.end].iter().zip(&dy[at + columns.start..at + columns.end]);
        let [gammas, betas] = &mut *sums;
        for (((&x, &dy), gamma), beta) in line.zip(gammas).zip(betas) {
            *gamma += f64::from((x - mean) * scale * dy);
            *beta += f64::from(dy);
        }
    }
}
