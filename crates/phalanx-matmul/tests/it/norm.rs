//! Batch and layer normalization, compared with formulas and with finite differences.

use crate::support::{near, numbers, with_threads};
use phalanx_matmul::{BatchNorm, LayerNorm, Level};

/// The normalized numbers of a column or row, and its mean and variance.
fn normalized(x: &[f64], epsilon: f64) -> (Vec<f64>, f64, f64) {
    let mean = x.iter().sum::<f64>() / x.len() as f64;
    let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len() as f64;
    (x.iter().map(|x| (x - mean) / (variance + epsilon).sqrt()).collect(), mean, variance)
}

/// The gradient of the sum of `dy` times the normalized numbers: of the numbers themselves.
fn slopes(x: &[f64], dy: &[f64], epsilon: f64) -> Vec<f64> {
    let (normal, _, variance) = normalized(x, epsilon);
    let over = 1.0 / x.len() as f64;
    let level = dy.iter().sum::<f64>() * over;
    let along = dy.iter().zip(&normal).map(|(dy, x)| dy * x).sum::<f64>() * over;
    let each = dy.iter().zip(&normal).map(|(dy, x)| (dy - level - along * x) / (variance + epsilon).sqrt());
    each.collect()
}

/// The formula above is the slope of the other one.
#[test]
fn the_gradient_that_is_compared_with_is_a_slope() {
    let (x, dy) = ([0.3, -1.0, 2.5, 0.7], [1.0, 0.5, -2.0, 0.25]);
    for (at, slope) in slopes(&x, &dy, 1e-3).into_iter().enumerate() {
        let total = |shift: f64| {
            let mut moved = x;
            moved[at] += shift;
            normalized(&moved, 1e-3).0.iter().zip(&dy).map(|(x, dy)| x * dy).sum::<f64>()
        };
        assert!(((total(1e-5) - total(-1e-5)) / 2e-5 - slope).abs() < 1e-8);
    }
}

const EPSILON: f32 = 1e-3;

fn check_batch(level: Level, rows: usize, channels: usize, affine: bool) {
    let what = || format!("{rows}x{channels} {level:?}");
    // Not centered: what is left of a large mean must not spoil the variance.
    let x: Vec<f32> = numbers(rows * channels, 1).iter().map(|x| x + 20.0).collect();
    let (dy, gamma, beta) = (numbers(rows * channels, 2), numbers(channels, 3), numbers(channels, 4));
    let (gamma, beta) = if affine { (Some(&gamma[..]), Some(&beta[..])) } else { (None, None) };
    let norm = BatchNorm { channels, epsilon: EPSILON, gamma, beta };
    let [mut mean, mut variance, mut d_gamma, mut d_beta] = [(); 4].map(|()| vec![f32::NAN; channels]);
    let [mut y, mut dx] = [(); 2].map(|()| vec![f32::NAN; x.len()]);
    norm.statistics(level, &x, &mut mean, &mut variance);
    norm.forward(level, &x, &mean, &variance, &mut y);
    norm.gradient(level, (&x, &mean, &variance), &dy, Some(&mut dx), (&mut d_gamma, &mut d_beta));
    for channel in 0..channels {
        let column = |x: &[f32]| (0..rows).map(|row| f64::from(x[row * channels + channel])).collect::<Vec<f64>>();
        let of = |weights: Option<&[f32]>, otherwise: f64| weights.map_or(otherwise, |w| f64::from(w[channel]));
        let (normal, exact_mean, exact_variance) = normalized(&column(&x), f64::from(EPSILON));
        if rows == 0 {
            assert_eq!((mean[channel], variance[channel]), (0.0, 0.0));
            continue;
        }
        near(mean[channel], exact_mean, 1e-6, 20.0, what);
        near(variance[channel], exact_variance, 1e-5, 20.0, what);
        let dy = column(&dy);
        let (sum, size) = dy.iter().fold((0.0, 1.0), |(sum, size), dy| (sum + dy, size + dy.abs()));
        near(d_beta[channel], sum, 1e-6, size, what);
        near(d_gamma[channel], dy.iter().zip(&normal).map(|(dy, x)| dy * x).sum(), 4e-6, 4.0 * size, what);
        let slopes = slopes(&column(&x), &dy, f64::from(EPSILON));
        for (row, (normal, slope)) in normal.into_iter().zip(slopes).enumerate() {
            let at = row * channels + channel;
            let scale = of(gamma, 1.0) / (exact_variance + f64::from(EPSILON)).sqrt();
            near(y[at], normal * of(gamma, 1.0) + of(beta, 0.0), 1e-5, 8.0 + 8.0 * scale.abs(), what);
            near(dx[at], slope * of(gamma, 1.0), 1e-5, 8.0 + 40.0 * scale.abs() * scale.abs().max(1.0), what);
        }
    }
}

#[test]
fn batches() {
    for level in Level::all() {
        for rows in [0, 1, 2, 7, 130, 700] {
            for channels in [1, 2, 5, 16, 17, 64, 70] {
                check_batch(level, rows, channels, rows % 2 == 0);
            }
        }
        check_batch(level, 3000, 32, true);
    }
}

fn check_layer(level: Level, rows: usize, columns: usize, affine: bool) {
    let what = || format!("{rows}x{columns} {level:?}");
    let x: Vec<f32> = numbers(rows * columns, 1).iter().map(|x| x + 20.0).collect();
    let (dy, gamma, beta) = (numbers(rows * columns, 2), numbers(columns, 3), numbers(columns, 4));
    let (gamma, beta) = if affine { (Some(&gamma[..]), Some(&beta[..])) } else { (None, None) };
    let norm = LayerNorm { columns, epsilon: EPSILON, gamma, beta };
    let [mut y, mut dx] = [(); 2].map(|()| vec![f32::NAN; x.len()]);
    let [mut d_gamma, mut d_beta] = [(); 2].map(|()| vec![f32::NAN; columns]);
    let mut kept = vec![f32::NAN; 2 * rows];
    norm.forward(level, &x, &mut y, &mut kept);
    norm.gradient(level, (&x, &kept), &dy, &mut dx, (&mut d_gamma, &mut d_beta));
    let of = |weights: Option<&[f32]>, at: usize, otherwise: f64| weights.map_or(otherwise, |w| f64::from(w[at]));
    let (mut gammas, mut betas) = (vec![0.0; columns], vec![0.0; columns]);
    for row in 0..rows {
        let range = row * columns..(row + 1) * columns;
        let line: Vec<f64> = x[range.clone()].iter().map(|&x| f64::from(x)).collect();
        let (normal, _, variance) = normalized(&line, f64::from(EPSILON));
        let scaled: Vec<f64> =
            dy[range.clone()].iter().enumerate().map(|(i, &dy)| f64::from(dy) * of(gamma, i, 1.0)).collect();
        let scale = 1.0 / (variance + f64::from(EPSILON)).sqrt();
        for (i, slope) in slopes(&line, &scaled, f64::from(EPSILON)).into_iter().enumerate() {
            let at = range.start + i;
            near(y[at], normal[i] * of(gamma, i, 1.0) + of(beta, i, 0.0), 1e-5, 8.0 + 64.0 * scale, what);
            near(dx[at], slope, 1e-5, 8.0 + 400.0 * scale * scale.max(1.0), what);
            gammas[i] += f64::from(dy[at]) * normal[i];
            betas[i] += f64::from(dy[at]);
        }
    }
    for i in 0..columns {
        near(d_gamma[i], gammas[i], 1e-5, 8.0 * rows as f64 + 8.0, what);
        near(d_beta[i], betas[i], 1e-6, 8.0 * rows as f64, what);
    }
}

#[test]
fn layers() {
    for level in Level::all() {
        for rows in [0, 1, 2, 40] {
            for columns in [1, 2, 5, 16, 17, 64, 70, 300] {
                check_layer(level, rows, columns, columns % 2 == 0);
            }
        }
        check_layer(level, 600, 100, true);
    }
}

#[test]
fn threads_change_no_bit() {
    let (x, dy) = (numbers(4000 * 40, 1), numbers(4000 * 40, 2));
    for level in Level::all() {
        let with = |threads: usize| {
            with_threads(threads, || {
                let norm = BatchNorm { channels: 40, epsilon: EPSILON, gamma: None, beta: None };
                let [mut mean, mut variance, mut d_gamma, mut d_beta] = [(); 4].map(|()| vec![0.0; 40]);
                let mut dx = vec![0.0; x.len()];
                norm.statistics(level, &x, &mut mean, &mut variance);
                norm.gradient(level, (&x, &mean, &variance), &dy, Some(&mut dx), (&mut d_gamma, &mut d_beta));
                let norm = LayerNorm { columns: 40, epsilon: EPSILON, gamma: None, beta: None };
                let (mut y, mut kept, [mut gammas, mut betas]) =
                    (dx.clone(), vec![0.0; 8000], [(); 2].map(|()| vec![0.0; 40]));
                norm.forward(level, &x, &mut y, &mut kept);
                norm.gradient(level, (&x, &kept), &dy, &mut y, (&mut gammas, &mut betas));
                (mean, variance, d_gamma, d_beta, dx, y, gammas, betas)
            })
        };
        assert!(with(1) == with(3), "{level:?}");
    }
}
