//! Softmax and the cross-entropies.

use crate::support::{near, numbers, with_threads};
use phalanx_base::SplitMix;
use phalanx_matmul::{Classes, Level, Scale, sigmoid_cross_entropy, softmax, softmax_cross_entropy, softmax_gradient};

fn exact_softmax(x: &[f32]) -> Vec<f64> {
    let max = x.iter().fold(f64::NEG_INFINITY, |max, &x| max.max(f64::from(x)));
    let exps: Vec<f64> = x.iter().map(|&x| (f64::from(x) - max).exp()).collect();
    let sum: f64 = exps.iter().sum();
    exps.iter().map(|exp| exp / sum).collect()
}

const SHAPES: [(usize, usize); 10] =
    [(0, 3), (1, 1), (2, 2), (5, 7), (3, 16), (4, 31), (3, 64), (2, 65), (1, 1000), (300, 10)];

#[test]
fn softmax_and_its_gradient() {
    for level in Level::all() {
        for (rows, columns) in SHAPES {
            let (x, dy) = (numbers(rows * columns, 1), numbers(rows * columns, 2));
            let (mut y, mut dx) = (vec![f32::NAN; x.len()], vec![f32::NAN; x.len()]);
            softmax(level, columns, &x, &mut y);
            softmax_gradient(level, columns, &y, &dy, &mut dx);
            for row in 0..rows {
                let range = row * columns..(row + 1) * columns;
                let exact = exact_softmax(&x[range.clone()]);
                let along: f64 = exact.iter().zip(&dy[range.clone()]).map(|(p, &dy)| p * f64::from(dy)).sum();
                for (at, p) in range.zip(exact) {
                    near(y[at], p, 1e-6, 0.0, || format!("{rows}x{columns} {level:?}"));
                    assert!((f64::from(y[at]) - p).abs() <= 2e-6 * p);
                    near(dx[at], p * (f64::from(dy[at]) - along), 4e-6, 8.0, || format!("{rows}x{columns} {level:?}"));
                }
            }
        }
    }
}

/// Checks losses and gradients of labels that are given as probabilities.
fn check_classes(level: Level, columns: usize, x: &[f32], labels: &[f32], weights: Option<&[f32]>, given: Classes<'_>) {
    let rows = x.len() / columns;
    let (mut losses, mut gradient) = (vec![f32::NAN; rows], vec![f32::NAN; x.len()]);
    let scale = Scale { all: 0.25, each: weights };
    softmax_cross_entropy(level, columns, x, given, scale, (Some(&mut losses), Some(&mut gradient)));
    for row in 0..rows {
        let range = row * columns..(row + 1) * columns;
        let (exact, labels) = (exact_softmax(&x[range.clone()]), &labels[range.clone()]);
        let loss: f64 = exact.iter().zip(labels).map(|(p, &label)| -f64::from(label) * p.ln()).sum();
        let mass: f64 = labels.iter().map(|&label| f64::from(label)).sum();
        near(losses[row], loss, 2e-6, loss, || format!("{rows}x{columns} {given:?} {level:?}"));
        let factor = 0.25 * weights.map_or(1.0, |weights| f64::from(weights[row]));
        for ((at, p), &label) in range.zip(exact).zip(labels) {
            let expected = factor * (p * mass - f64::from(label));
            near(gradient[at], expected, 1e-6, factor.abs() * mass, || format!("{rows}x{columns} {level:?}"));
        }
    }
    let (mut alone, mut other) = (vec![f32::NAN; rows], vec![f32::NAN; x.len()]);
    softmax_cross_entropy(level, columns, x, given, scale, (Some(&mut alone), None));
    softmax_cross_entropy(level, columns, x, given, scale, (None, Some(&mut other)));
    assert_eq!(other, gradient);
    for (alone, both) in alone.iter().zip(&losses) {
        near(*alone, f64::from(*both), 1e-6, f64::from(*both), || "one of two outputs".to_owned());
    }
}

#[test]
fn the_cross_entropy_of_classes() {
    let mut random = SplitMix::new(3);
    for level in Level::all() {
        for (rows, columns) in SHAPES {
            let (x, weights) = (numbers(rows * columns, 1), numbers(rows, 4));
            let ids: Vec<i64> = (0..rows).map(|_| random.below(columns) as i64).collect();
            let mut labels = vec![0.0; x.len()];
            ids.iter().enumerate().for_each(|(row, &id)| labels[row * columns + id as usize] = 1.0);
            for weights in [None, Some(&weights[..])] {
                check_classes(level, columns, &x, &labels, weights, Classes::Ids(&ids));
                check_classes(level, columns, &x, &labels, weights, Classes::Rows(&labels));
            }
            let soft: Vec<f32> = numbers(x.len(), 5).iter().map(|x| (x + 8.0) / 16.0).collect();
            check_classes(level, columns, &x, &soft, None, Classes::Rows(&soft));
        }
    }
}

#[test]
fn large_logits_keep_their_digits() {
    for level in Level::all() {
        let mut losses = [0.0];
        let x = [1e6, 1e6 - 1.0, -1e30];
        let scale = Scale { all: 1.0, each: None };
        softmax_cross_entropy(level, 3, &x, Classes::Ids(&[1]), scale, (Some(&mut losses), None));
        near(losses[0], 1.0 + (-1.0_f64).exp().ln_1p(), 1e-6, 1.0, || format!("{level:?}"));
        let x = [f32::NAN, 0.0, 1.0];
        softmax_cross_entropy(level, 3, &x, Classes::Ids(&[1]), scale, (Some(&mut losses), None));
        assert!(losses[0].is_nan());
    }
}

#[test]
fn the_cross_entropy_of_independent_logits() {
    for level in Level::all() {
        for (rows, columns) in SHAPES {
            let (x, weights) = (numbers(rows * columns, 1), numbers(rows, 4));
            let labels: Vec<f32> = numbers(x.len(), 5).iter().map(|x| (x + 8.0) / 16.0).collect();
            let (mut losses, mut gradient) = (vec![f32::NAN; rows], vec![f32::NAN; x.len()]);
            let scale = Scale { all: 0.5, each: Some(&weights) };
            sigmoid_cross_entropy(level, columns, &x, &labels, scale, (Some(&mut losses), Some(&mut gradient)));
            for row in 0..rows {
                let each = (row * columns..(row + 1) * columns).map(|at| {
                    let (x, label) = (f64::from(x[at]), f64::from(labels[at]));
                    let slope = (1.0 / (1.0 + (-x).exp()) - label) * 0.5 * f64::from(weights[row]) / columns as f64;
                    near(gradient[at], slope, 1e-6, slope.abs().max(8.0), || format!("{rows}x{columns} {level:?}"));
                    x.max(0.0) - x * label + (-x.abs()).exp().ln_1p()
                });
                let loss = each.sum::<f64>() / columns as f64;
                near(losses[row], loss, 2e-6, loss, || format!("{rows}x{columns} {level:?}"));
            }
        }
    }
}

#[test]
fn threads_change_no_bit() {
    for level in Level::all() {
        let with = |threads: usize| {
            with_threads(threads, || {
                let x = numbers(20_000 * 7, 1);
                let ids: Vec<i64> = (0..20_000).map(|row| row % 7).collect();
                let (mut losses, mut gradient) = (vec![0.0; 20_000], vec![0.0; x.len()]);
                let outputs = (Some(&mut losses[..]), Some(&mut gradient[..]));
                softmax_cross_entropy(level, 7, &x, Classes::Ids(&ids), Scale { all: 1.0, each: None }, outputs);
                (losses, gradient)
            })
        };
        assert!(with(1) == with(3), "{level:?}");
    }
}

#[test]
#[should_panic(expected = "class numbers are below 3")]
fn a_class_that_does_not_exist_is_refused() {
    let scale = Scale { all: 1.0, each: None };
    softmax_cross_entropy(Level::detect(), 3, &[0.0; 3], Classes::Ids(&[3]), scale, (None, None));
}
