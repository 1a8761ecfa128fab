//! Distances between distributions, and margins.

use phalanx_base::Result;

use super::regression::{EPSILON, at_least};
use super::{MeanMetric, Measure, Pair, Values};

/// The mean Kullback-Leibler divergence of the prediction from the truth.
pub type KlDivergence = MeanMetric<KullbackLeibler>;
/// The mean Poisson loss, `prediction - truth * log(prediction)`.
pub type Poisson = MeanMetric<PoissonLoss>;
/// The mean hinge loss. Truths of 0 and 1 are taken for -1 and 1 if a whole batch has nothing else.
pub type Hinge = MeanMetric<HingeLoss>;
/// The mean squared hinge loss. Truths of 0 and 1 are taken for -1 and 1 if a whole batch has nothing else.
pub type SquaredHinge = MeanMetric<SquaredHingeLoss>;
/// The mean hinge loss between the true class and the best wrong one.
pub type CategoricalHinge = MeanMetric<CategoricalHingeLoss>;

/// The measure of [`KlDivergence`].
#[derive(Clone, Copy, Debug, Default)]
pub struct KullbackLeibler;

impl Measure for KullbackLeibler {
    const NAME: &'static str = "kullback_leibler_divergence";

    fn measure(&self, truth: Values<'_>, prediction: Values<'_>, out: &mut Vec<f64>) -> Result<()> {
        let clip = |number: f32| f64::from(number.clamp(EPSILON, 1.0));
        let of = |(&truth, &prediction): (&f32, &f32)| clip(truth) * (clip(truth) / clip(prediction)).ln();
        let pair = Pair::new(truth, prediction)?;
        out.extend(pair.rows().map(|(truth, prediction)| truth.iter().zip(prediction).map(of).sum::<f64>()));
        Ok(())
    }
}

/// The measure of [`Poisson`].
#[derive(Clone, Copy, Debug, Default)]
pub struct PoissonLoss;

impl Measure for PoissonLoss {
    const NAME: &'static str = "poisson";

    fn measure(&self, truth: Values<'_>, prediction: Values<'_>, out: &mut Vec<f64>) -> Result<()> {
        let of = |(&truth, &prediction): (&f32, &f32)| {
            f64::from(prediction) - f64::from(truth) * f64::from(prediction + EPSILON).ln()
        };
        let pair = Pair::new(truth, prediction)?;
        let width = pair.width as f64;
        out.extend(pair.rows().map(|(truth, prediction)| truth.iter().zip(prediction).map(of).sum::<f64>() / width));
        Ok(())
    }
}

/// Appends the mean over each row of a function of the margin `1 - truth * prediction`, where it is above 0.
fn margins(truth: Values<'_>, prediction: Values<'_>, out: &mut Vec<f64>, of: impl Fn(f64) -> f64) -> Result<()> {
    let pair = Pair::new(truth, prediction)?;
    let binary = pair.truth.iter().all(|&truth| truth == 0.0 || truth == 1.0);
    let margin = |(&truth, &prediction): (&f32, &f32)| {
        let truth = if binary { 2.0 * f64::from(truth) - 1.0 } else { f64::from(truth) };
        let margin = 1.0 - truth * f64::from(prediction);
        of(if margin < 0.0 { 0.0 } else { margin })
    };
    let width = pair.width as f64;
    out.extend(pair.rows().map(|(truth, prediction)| truth.iter().zip(prediction).map(margin).sum::<f64>() / width));
    Ok(())
}

/// The measure of [`Hinge`].
#[derive(Clone, Copy, Debug, Default)]
pub struct HingeLoss;

impl Measure for HingeLoss {
    const NAME: &'static str = "hinge";

    fn measure(&self, truth: Values<'_>, prediction: Values<'_>, out: &mut Vec<f64>) -> Result<()> {
        margins(truth, prediction, out, |margin| margin)
    }
}

/// The measure of [`SquaredHinge`].
#[derive(Clone, Copy, Debug, Default)]
pub struct SquaredHingeLoss;

impl Measure for SquaredHingeLoss {
    const NAME: &'static str = "squared_hinge";

    fn measure(&self, truth: Values<'_>, prediction: Values<'_>, out: &mut Vec<f64>) -> Result<()> {
        margins(truth, prediction, out, |margin| margin * margin)
    }
}

/// The measure of [`CategoricalHinge`].
#[derive(Clone, Copy, Debug, Default)]
pub struct CategoricalHingeLoss;

impl Measure for CategoricalHingeLoss {
    const NAME: &'static str = "categorical_hinge";

    fn measure(&self, truth: Values<'_>, prediction: Values<'_>, out: &mut Vec<f64>) -> Result<()> {
        let pair = Pair::new(truth, prediction)?;
        out.extend(pair.rows().map(|(truth, prediction)| {
            let both = || truth.iter().zip(prediction);
            let right: f64 = both().map(|(&truth, &number)| f64::from(truth) * f64::from(number)).sum();
            let wrong = both().map(|(&truth, &number)| (1.0 - truth) * number).fold(f32::NEG_INFINITY, at_least);
            let margin = f64::from(wrong) - right + 1.0;
            if margin < 0.0 { 0.0 } else { margin }
        }));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metric;

    #[test]
    fn zeros_and_ones_become_signs_only_if_nothing_else_is_there() {
        let mut hinge = Hinge::new();
        hinge.update(Values::column(&[0.0, 1.0]), Values::column(&[0.5, 0.5]), None).unwrap();
        assert_eq!(hinge.result(), 1.0);
        hinge.reset();
        hinge.update(Values::column(&[0.0, -1.0]), Values::column(&[0.5, 0.5]), None).unwrap();
        assert_eq!(hinge.result(), 1.25);
    }
}
