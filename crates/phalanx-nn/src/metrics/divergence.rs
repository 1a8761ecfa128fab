//! Distances between distributions, and margins.

use phalanx_base::Result;

use super::measured::{each_row, measures, row_means};
use super::regression::{EPSILON, at_least};
use super::{MeanMetric, Measure, Pair, Values};

measures! {
    /// The mean Kullback-Leibler divergence of the prediction from the label.
    KlDivergence = KullbackLeibler, "kullback_leibler_divergence", |label, prediction, out| {
        let clip = |number: f32| f64::from(number.clamp(EPSILON, 1.0));
        let of = |(&label, &prediction): (&f32, &f32)| clip(label) * (clip(label) / clip(prediction)).ln();
        each_row(label, prediction, out, |label, prediction| label.iter().zip(prediction).map(of).sum())
    };
    /// The mean Poisson loss, `prediction - label * log(prediction)`.
    Poisson = PoissonLoss, "poisson", |label, prediction, out| {
        row_means(label, prediction, out, |label, prediction| {
            f64::from(prediction) - f64::from(label) * f64::from(prediction + EPSILON).ln()
        })
    };
    /// The mean hinge loss. If a batch has no other labels than 0 and 1, they mean -1 and 1.
    Hinge = HingeLoss, "hinge", |label, prediction, out| margins(label, prediction, out, |margin| margin);
    /// The mean squared hinge loss. If a batch has no other labels than 0 and 1, they mean -1 and 1.
    SquaredHinge = SquaredHingeLoss, "squared_hinge", |label, prediction, out| {
        margins(label, prediction, out, |margin| margin * margin)
    };
    /// The mean hinge loss between the true class and the best wrong one.
    CategoricalHinge = CategoricalHingeLoss, "categorical_hinge", |label, prediction, out| {
        each_row(label, prediction, out, |label, prediction| {
            let both = || label.iter().zip(prediction);
            let right: f64 = both().map(|(&label, &number)| f64::from(label) * f64::from(number)).sum();
            let wrong = both().map(|(&label, &number)| (1.0 - label) * number).fold(f32::NEG_INFINITY, at_least);
            let margin = f64::from(wrong) - right + 1.0;
            if margin < 0.0 { 0.0 } else { margin }
        })
    };
}

/// Appends the mean over each row of a function of the margin `max(1 - label * prediction, 0)`.
fn margins(label: Values<'_>, prediction: Values<'_>, out: &mut Vec<f64>, of: impl Fn(f64) -> f64) -> Result<()> {
    let binary = Pair::new(label, prediction)?.label.iter().all(|&label| label == 0.0 || label == 1.0);
    row_means(label, prediction, out, |label, prediction| {
        let label = if binary { 2.0 * f64::from(label) - 1.0 } else { f64::from(label) };
        let margin = 1.0 - label * f64::from(prediction);
        of(if margin < 0.0 { 0.0 } else { margin })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metric;

    #[test]
    fn zeros_and_ones_become_signs_only_without_other_labels() {
        let mut hinge = Hinge::new();
        hinge.update(Values::column(&[0.0, 1.0]), Values::column(&[0.5, 0.5]), None).unwrap();
        assert_eq!(hinge.result(), 1.0);
        hinge.reset();
        hinge.update(Values::column(&[0.0, -1.0]), Values::column(&[0.5, 0.5]), None).unwrap();
        assert_eq!(hinge.result(), 1.25);
    }
}
