//! Cross-entropies, fused with the softmax and the sigmoid before them.

use crate::Level;
use crate::activation::softplus_of_negative_abs;
use crate::lanes;
use crate::level::leveled;
use crate::math::{exp, fma, ln, sigmoid};
use crate::parallel::{In, Out, by_rows, check, grain, rows_of};
use crate::softmax::exps;

/// The class of each row, or a probability for each class.
#[derive(Clone, Copy, Debug)]
pub enum Classes<'a> {
    /// One class number for each row.
    Ids(&'a [i64]),
    /// One number for each class of each row. Rows need not sum to 1.
    Rows(&'a [f32]),
}

/// The factors of a gradient that begins at a loss: the derivative of the mean over a batch, say.
#[derive(Clone, Copy, Debug)]
pub struct Scale<'a> {
    /// A factor for all rows, such as 1 over their number.
    pub all: f32,
    /// A further factor for each row, such as its weight.
    pub each: Option<&'a [f32]>,
}

/// Writes the cross-entropy of each row, from logits, and the gradient of the logits times `scale`. Either output may be
/// left out.
///
/// ```
/// use phalanx_matmul::{Classes, Level, Scale, softmax_cross_entropy};
///
/// let (mut losses, mut gradient) = ([0.0], [0.0; 2]);
/// let scale = Scale { all: 1.0, each: None };
/// let outputs = (Some(&mut losses[..]), Some(&mut gradient[..]));
/// softmax_cross_entropy(Level::detect(), 2, &[0.0, 0.0], Classes::Ids(&[1]), scale, outputs);
/// assert!((losses[0] - 2.0_f32.ln()).abs() < 1e-6);
/// assert_eq!(gradient, [0.5, -0.5]);
/// ```
///
/// # Panics
/// If the slices do not have the same rows, or a class number is not below `classes`.
pub fn softmax_cross_entropy(
    level: Level,
    classes: usize,
    logits: &[f32],
    labels: Classes<'_>,
    scale: Scale<'_>,
    (losses, gradient): (Option<&mut [f32]>, Option<&mut [f32]>),
) {
    let rows = rows_of("the logits", logits, classes);
    check_outputs(rows, classes, scale, &losses, &gradient);
    let outputs = (losses.map(|losses| Out(losses, 1)), gradient.map(|gradient| Out(gradient, classes)));
    let (inputs, weights) = (In(logits, classes), scale.each.map(|each| In(each, 1)));
    match labels {
        Classes::Ids(ids) => {
            check("the class numbers", ids, rows, 1);
            let highest = i64::try_from(classes).unwrap_or(i64::MAX);
            assert!(ids.iter().all(|id| (0..highest).contains(id)), "class numbers are below {classes}");
            by_rows(rows, grain(4 * classes), (inputs, In(ids, 1), weights, outputs), &|(x, ids, weights, out)| {
                let weights = weights.map(|weights| weights.0);
                sparse_rows(level, classes, x.0, ids.0, scale.all, weights, out.0.map(|o| o.0), out.1.map(|o| o.0));
            });
        }
        Classes::Rows(labels) => {
            check("the labels", labels, rows, classes);
            let parts = (inputs, In(labels, classes), weights, outputs);
            by_rows(rows, grain(4 * classes), parts, &|(x, labels, weights, out)| {
                let weights = weights.map(|weights| weights.0);
                dense_rows(level, classes, x.0, labels.0, scale.all, weights, out.0.map(|o| o.0), out.1.map(|o| o.0));
            });
        }
    }
}

/// Writes the mean cross-entropy of each row of `columns` independent logits, and the gradient of the logits times `scale`.
/// Either output may be left out.
///
/// ```
/// use phalanx_matmul::{Level, Scale, sigmoid_cross_entropy};
///
/// let (mut losses, mut gradient) = ([0.0; 2], [0.0; 2]);
/// let scale = Scale { all: 0.5, each: None };
/// let outputs = (Some(&mut losses[..]), Some(&mut gradient[..]));
/// sigmoid_cross_entropy(Level::detect(), 1, &[0.0, 0.0], &[0.0, 1.0], scale, outputs);
/// assert_eq!(gradient, [0.25, -0.25]);
/// assert!((losses[1] - 2.0_f32.ln()).abs() < 1e-6);
/// ```
///
/// # Panics
/// If the slices do not have the same rows.
pub fn sigmoid_cross_entropy(
    level: Level,
    columns: usize,
    logits: &[f32],
    labels: &[f32],
    scale: Scale<'_>,
    (losses, gradient): (Option<&mut [f32]>, Option<&mut [f32]>),
) {
    let rows = rows_of("the logits", logits, columns);
    check("the labels", labels, rows, columns);
    check_outputs(rows, columns, scale, &losses, &gradient);
    let outputs = (losses.map(|losses| Out(losses, 1)), gradient.map(|gradient| Out(gradient, columns)));
    let parts = (In(logits, columns), In(labels, columns), scale.each.map(|each| In(each, 1)), outputs);
    by_rows(rows, grain(4 * columns), parts, &|(x, labels, weights, out)| {
        let weights = weights.map(|weights| weights.0);
        binary_rows(level, columns, x.0, labels.0, scale.all, weights, out.0.map(|o| o.0), out.1.map(|o| o.0));
    });
}

fn check_outputs(
    rows: usize,
    columns: usize,
    scale: Scale<'_>,
    losses: &Option<&mut [f32]>,
    gradient: &Option<&mut [f32]>,
) {
    scale.each.inspect(|each| check("the weights", each, rows, 1));
    losses.as_deref().inspect(|losses| check("the losses", losses, rows, 1));
    gradient.as_deref().inspect(|gradient| check("the gradient", gradient, rows, columns));
}

leveled! {
    fn sparse_rows(
        classes: usize, x: &[f32], ids: &[i64], all: f32, weights: Option<&[f32]>,
        losses: Option<&mut [f32]>, gradient: Option<&mut [f32]>
    ) => sparse_body;
    fn dense_rows(
        classes: usize, x: &[f32], labels: &[f32], all: f32, weights: Option<&[f32]>,
        losses: Option<&mut [f32]>, gradient: Option<&mut [f32]>
    ) => dense_body;
    fn binary_rows(
        columns: usize, x: &[f32], labels: &[f32], all: f32, weights: Option<&[f32]>,
        losses: Option<&mut [f32]>, gradient: Option<&mut [f32]>
    ) => binary_body;
}

/// The sum of `exp(x - shift)`, of numbers that are not kept.
#[inline(always)]
fn sum_of_exps<const F: bool>(x: &[f32], shift: f32) -> f32 {
    let mut sum = 0.0;
    for x in x.chunks(64) {
        sum += exps::<F>(x, shift, &mut [0.0; 64][..x.len()]);
    }
    sum
}

/// Returns the factor of a row's gradient.
#[inline(always)]
fn factor(all: f32, weights: Option<&[f32]>, row: usize) -> f32 {
    weights.map_or(all, |weights| all * weights[row])
}

#[inline(always)]
fn sparse_body<const F: bool>(
    classes: usize,
    x: &[f32],
    ids: &[i64],
    all: f32,
    weights: Option<&[f32]>,
    mut losses: Option<&mut [f32]>,
    mut gradient: Option<&mut [f32]>,
) {
    if classes <= NARROW {
        for first in (0..ids.len()).step_by(lanes::LANES) {
            narrow_rows::<F>(classes, first, x, ids, (all, weights), losses.as_deref_mut(), gradient.as_deref_mut());
        }
        return;
    }
    for (row, (x, &id)) in x.chunks_exact(classes).zip(ids).enumerate() {
        let (max, id) = (lanes::max(x), id as usize);
        let sum = match &mut gradient {
            None => sum_of_exps::<F>(x, max),
            Some(gradient) => {
                let dx = &mut gradient[row * classes..][..classes];
                let sum = exps::<F>(x, max, dx);
                let factor = factor(all, weights, row);
                let over = factor / sum;
                dx.iter_mut().for_each(|dx| *dx *= over);
                dx[id] -= factor;
                sum
            }
        };
        if let Some(losses) = &mut losses {
            losses[row] = ln::<F>(sum) - (x[id] - max);
        }
    }
}

/// The most classes for which a vector has the same class of several rows, rather than several classes of a row.
const NARROW: usize = 24;

/// Computes as many rows as a vector has lanes, from `first` on, or fewer at the end.
#[inline(always)]
fn narrow_rows<const F: bool>(
    classes: usize,
    first: usize,
    x: &[f32],
    ids: &[i64],
    (all, weights): (f32, Option<&[f32]>),
    losses: Option<&mut [f32]>,
    gradient: Option<&mut [f32]>,
) {
    let count = lanes::LANES.min(ids.len() - first);
    let x = &x[first * classes..][..count * classes];
    let mut turned = [[0.0; lanes::LANES]; NARROW];
    let (mut max, mut own) = ([f32::NEG_INFINITY; lanes::LANES], [0.0; lanes::LANES]);
    for (row, x) in x.chunks_exact(classes).enumerate() {
        for (turned, &x) in turned.iter_mut().zip(x) {
            turned[row] = x;
        }
        own[row] = x[ids[first + row] as usize];
    }
    for turned in &turned[..classes] {
        for i in 0..lanes::LANES {
            max[i] = lanes::larger(max[i], turned[i]);
        }
    }
    let mut sums = [0.0; lanes::LANES];
    for turned in &mut turned[..classes] {
        for i in 0..lanes::LANES {
            turned[i] = exp::<F>(turned[i] - max[i]);
            sums[i] += turned[i];
        }
    }
    if let Some(losses) = losses {
        for (i, loss) in losses[first..][..count].iter_mut().enumerate() {
            *loss = ln::<F>(sums[i]) - (own[i] - max[i]);
        }
    }
    let Some(gradient) = gradient else { return };
    for (row, dx) in gradient[first * classes..][..count * classes].chunks_exact_mut(classes).enumerate() {
        let factor = factor(all, weights, first + row);
        let over = factor / sums[row];
        for (dx, turned) in dx.iter_mut().zip(&turned) {
            *dx = turned[row] * over;
        }
        dx[ids[first + row] as usize] -= factor;
    }
}

#[inline(always)]
fn dense_body<const F: bool>(
    classes: usize,
    x: &[f32],
    labels: &[f32],
    all: f32,
    weights: Option<&[f32]>,
    mut losses: Option<&mut [f32]>,
    mut gradient: Option<&mut [f32]>,
) {
    for (row, (x, labels)) in x.chunks_exact(classes).zip(labels.chunks_exact(classes)).enumerate() {
        let (max, mass) = (lanes::max(x), lanes::sum(labels));
        let sum = match &mut gradient {
            None => sum_of_exps::<F>(x, max),
            Some(gradient) => {
                let dx = &mut gradient[row * classes..][..classes];
                let sum = exps::<F>(x, max, dx);
                let factor = factor(all, weights, row);
                let over = factor * mass / sum;
                for (dx, &label) in dx.iter_mut().zip(labels) {
                    *dx = fma::<F>(*dx, over, -factor * label);
                }
                sum
            }
        };
        if let Some(losses) = &mut losses {
            // Not the difference of two long sums: it would lose digits where logits are large.
            let log = ln::<F>(sum);
            let mut loss = 0.0;
            for (&x, &label) in x.iter().zip(labels) {
                loss = fma::<F>(label, log - (x - max), loss);
            }
            losses[row] = loss;
        }
    }
}

#[inline(always)]
fn binary_body<const F: bool>(
    columns: usize,
    x: &[f32],
    labels: &[f32],
    all: f32,
    weights: Option<&[f32]>,
    losses: Option<&mut [f32]>,
    gradient: Option<&mut [f32]>,
) {
    let over = 1.0 / columns as f32;
    if let Some(gradient) = gradient {
        for ((dx, &x), &label) in gradient.iter_mut().zip(x).zip(labels) {
            *dx = (sigmoid::<F>(x) - label) * (all * over);
        }
        if let Some(weights) = weights {
            for (dx, &weight) in gradient.chunks_exact_mut(columns).zip(weights) {
                dx.iter_mut().for_each(|dx| *dx *= weight);
            }
        }
    }
    let Some(losses) = losses else { return };
    if columns == 1 {
        for ((loss, &x), &label) in losses.iter_mut().zip(x).zip(labels) {
            *loss = binary_loss::<F>(x, label);
        }
        return;
    }
    let rows = x.chunks_exact(columns).zip(labels.chunks_exact(columns));
    for (loss, (x, labels)) in losses.iter_mut().zip(rows) {
        let mut sum = 0.0;
        for (x, labels) in x.chunks(64).zip(labels.chunks(64)) {
            let mut each = [0.0; 64];
            for ((each, &x), &label) in each.iter_mut().zip(x).zip(labels) {
                *each = binary_loss::<F>(x, label);
            }
            sum += lanes::sum(&each[..x.len()]);
        }
        *loss = sum * over;
    }
}

/// `max(x, 0) - x label + ln(1 + exp(-|x|))`, in which NaN stays NaN.
#[inline(always)]
fn binary_loss<const F: bool>(x: f32, label: f32) -> f32 {
    let positive = if x < 0.0 { 0.0 } else { x };
    fma::<F>(-x, label, positive) + softplus_of_negative_abs::<F>(x)
}
