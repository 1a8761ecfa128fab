//! Combines looked-up rows into the rows of a batch, and scatters gradients back.
//!
//! This is a hot path: nothing is allocated per row.

use phalanx_feature::{Combiner, SparseIds};
use phalanx_train::RowValues;
use std::ops::Range;

/// The lookup of one column's ids.
#[derive(Clone, Debug)]
pub(crate) struct Lookup {
    /// The index of the transform's sparse feature.
    pub(crate) sparse: usize,
    /// The index of the model's table.
    pub(crate) table: usize,
    pub(crate) combiner: Combiner,
    pub(crate) max_norm: Option<f32>,
    pub(crate) trainable: bool,
    /// The range in a row of the matrix.
    pub(crate) at: Range<usize>,
}

/// The ids of a batch for one column, and their positions among its table's rows.
pub(crate) struct Found<'a> {
    pub(crate) ids: &'a SparseIds,
    /// For each id of the column, the index of its unique row.
    pub(crate) positions: &'a [u32],
}

/// A matrix, row-major.
pub(crate) struct Matrix<'a> {
    pub(crate) values: &'a mut [f32],
    pub(crate) width: usize,
}

impl Lookup {
    /// Adds the combined rows of every example to its row of `out`.
    pub(crate) fn combine(&self, found: &Found<'_>, rows: &RowValues, out: &mut Matrix<'_>) {
        let dim = rows.dim;
        for (row, out) in out.values.chunks_exact_mut(out.width).enumerate() {
            let out = &mut out[self.at.clone()];
            self.each(found, row, |item, share| {
                let value = &rows.values[item * dim..][..dim];
                let share = share * self.clip(value);
                out.iter_mut().zip(value).for_each(|(out, value)| *out += share * value);
            });
        }
    }

    /// Adds the gradients of every example's row to those of the unique rows.
    pub(crate) fn scatter(&self, found: &Found<'_>, rows: &RowValues, gradient: &Matrix<'_>, out: &mut [f32]) {
        let dim = rows.dim;
        for (row, gradient) in gradient.values.chunks_exact(gradient.width).enumerate() {
            let gradient = &gradient[self.at.clone()];
            self.each(found, row, |item, share| {
                let (value, out) = (&rows.values[item * dim..][..dim], &mut out[item * dim..][..dim]);
                let scale = self.clip(value);
                let share = share * scale;
                out.iter_mut().zip(gradient).for_each(|(out, gradient)| *out += share * gradient);
                if scale < 1.0 {
                    // A row clipped to max_norm gets only the part of the gradient that is orthogonal to it.
                    let square: f32 = value.iter().map(|x| x * x).sum();
                    let along: f32 = value.iter().zip(gradient).map(|(x, g)| x * g).sum::<f32>() / square;
                    out.iter_mut().zip(value).for_each(|(out, value)| *out -= share * along * value);
                }
            });
        }
    }

    /// Calls `f` with the index of the unique row and the weight of each id of an example.
    #[inline]
    fn each(&self, found: &Found<'_>, row: usize, mut f: impl FnMut(usize, f32)) {
        let range = found.ids.splits[row]..found.ids.splits[row + 1];
        let Some(weights) = &found.ids.weights else {
            let count = range.len() as f32;
            let share = match self.combiner {
                Combiner::Sum => 1.0,
                Combiner::Mean => 1.0 / count,
                Combiner::Sqrtn => 1.0 / count.sqrt(),
            };
            range.for_each(|at| f(found.positions[at] as usize, share));
            return;
        };
        let whole = match self.combiner {
            Combiner::Sum => 1.0,
            Combiner::Mean => weights[range.clone()].iter().sum::<f32>(),
            Combiner::Sqrtn => weights[range.clone()].iter().map(|w| w * w).sum::<f32>().sqrt(),
        };
        range.for_each(|at| f(found.positions[at] as usize, weights[at] / whole));
    }

    /// Returns the factor that clips a row to `max_norm`.
    #[inline]
    fn clip(&self, value: &[f32]) -> f32 {
        let Some(longest) = self.max_norm else { return 1.0 };
        let length = value.iter().map(|x| x * x).sum::<f32>().sqrt();
        if length > longest { longest / length } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(combiner: Combiner, max_norm: Option<f32>) -> Lookup {
        Lookup { sparse: 0, table: 0, combiner, max_norm, trainable: true, at: 1..3 }
    }

    fn ids(weights: Option<Vec<f32>>) -> SparseIds {
        SparseIds { ids: vec![7, 9, 7], splits: vec![0, 2, 2, 3], weights }
    }

    fn combined(lookup: &Lookup, ids: &SparseIds, values: &[f32]) -> Vec<f32> {
        let rows = RowValues { values: values.to_vec(), dim: 2, positions: vec![0, 1, 0] };
        let mut out = vec![0.0; 9];
        lookup.combine(&Found { ids, positions: &rows.positions }, &rows, &mut Matrix { values: &mut out, width: 3 });
        out
    }

    #[test]
    fn rows_are_combined_and_an_empty_row_is_zero() {
        let values = [1.0, 2.0, 3.0, 4.0];
        let mean = combined(&lookup(Combiner::Mean, None), &ids(None), &values);
        assert_eq!(mean, [0.0, 2.0, 3.0, 0.0, 0.0, 0.0, 0.0, 1.0, 2.0]);
        let weighted = combined(&lookup(Combiner::Mean, None), &ids(Some(vec![1.0, 3.0, 5.0])), &values);
        assert_eq!(weighted[1..3], [2.5, 3.5]);
        let sqrtn = combined(&lookup(Combiner::Sqrtn, None), &ids(Some(vec![3.0, 4.0, 1.0])), &values);
        assert!((sqrtn[1] - 3.0).abs() < 1e-6 && (sqrtn[2] - 22.0 / 5.0).abs() < 1e-6);
    }

    #[test]
    fn every_gradient_is_the_slope() {
        let weights = [1.0_f32, -2.0, 0.5, 3.0, 1.5, -1.0, 2.0, 0.25, -0.75];
        let values = [1.0, 2.0, 3.0, -4.0];
        for (combiner, norm) in
            [(Combiner::Sum, None), (Combiner::Mean, Some(3.0)), (Combiner::Sqrtn, Some(1.0)), (Combiner::Sqrtn, None)]
        {
            let (lookup, ids) = (lookup(combiner, norm), ids(Some(vec![1.0, 3.0, 2.0])));
            let loss = |values: &[f32]| -> f64 {
                let out = combined(&lookup, &ids, values);
                out.iter().zip(weights).map(|(a, b)| f64::from(*a) * f64::from(b)).sum()
            };
            let rows = RowValues { values: values.to_vec(), dim: 2, positions: vec![0, 1, 0] };
            let (mut weights, mut slopes) = (weights, [0.0; 4]);
            let found = Found { ids: &ids, positions: &rows.positions };
            lookup.scatter(&found, &rows, &Matrix { values: &mut weights, width: 3 }, &mut slopes);
            for (at, slope) in slopes.iter().enumerate() {
                let moved = |by: f32| {
                    let mut moved = values;
                    moved[at] += by;
                    loss(&moved)
                };
                let measured = (moved(1e-2) - moved(-1e-2)) / 2e-2;
                assert!((measured - f64::from(*slope)).abs() < 1e-2, "{combiner:?} {norm:?} {at}: {measured}, {slope}");
            }
        }
    }
}
