//! Regression errors.
//!
//! Differences are computed in f64 and agree with Keras' f32 to its last digits. Where Keras' rounding to f32 shows in the
//! result (an epsilon added to a number near 1), it is applied here too.

use phalanx_base::Result;

use super::measured::{each_row, measures, row_means};
use super::{MeanMetric, Measure, Pair, Values};

/// Keras' epsilon, which keeps numbers away from zero.
pub(crate) const EPSILON: f32 = 1e-7;

fn difference(label: f32, prediction: f32) -> f64 {
    f64::from(prediction) - f64::from(label)
}

measures! {
    /// The mean of squared differences.
    MeanSquaredError = SquaredError, "mean_squared_error", |label, prediction, out| {
        row_means(label, prediction, out, |label, prediction| difference(label, prediction).powi(2))
    };
    /// The mean of absolute differences.
    MeanAbsoluteError = AbsoluteError, "mean_absolute_error", |label, prediction, out| {
        row_means(label, prediction, out, |label, prediction| difference(label, prediction).abs())
    };
    /// The mean of absolute differences, in percent of the label.
    MeanAbsolutePercentageError = AbsolutePercentageError, "mean_absolute_percentage_error", |label, prediction, out| {
        row_means(label, prediction, out, |label, prediction| {
            100.0 * (difference(label, prediction) / f64::from(at_least(label.abs(), EPSILON))).abs()
        })
    };
    /// The mean of squared differences of `log(1 + x)`.
    MeanSquaredLogarithmicError = SquaredLogarithmicError, "mean_squared_logarithmic_error", |label, prediction, out| {
        let log = |number: f32| f64::from(at_least(number, EPSILON) + 1.0).ln();
        row_means(label, prediction, out, |label, prediction| (log(prediction) - log(label)).powi(2))
    };
    /// The mean of `log(cosh(difference))`: squared when small, absolute when large.
    LogCoshError = LogCosh, "logcosh", |label, prediction, out| {
        row_means(label, prediction, out, |label, prediction| {
            // log(cosh(x)), which is even in x, without the overflow of cosh.
            let far = difference(label, prediction).abs();
            far + (-2.0 * far).exp().ln_1p() - std::f64::consts::LN_2
        })
    };
    /// The cosine of the angle between label and prediction: 1 for the same direction.
    CosineSimilarity = Cosine, "cosine_similarity", |label, prediction, out| {
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>();
        // TensorFlow's l2_normalize divides by the root of the sum of squares, at least of 1e-12.
        let length = |row: &[f32]| dot(row, row).max(1e-12).sqrt();
        each_row(label, prediction, out, |label, prediction| {
            dot(label, prediction) / (length(label) * length(prediction))
        })
    };
}

/// The square root of the mean of squared differences.
pub type RootMeanSquaredError = MeanMetric<RootSquaredError>;

/// The measure of [`RootMeanSquaredError`].
#[derive(Clone, Copy, Debug, Default)]
pub struct RootSquaredError;

impl Measure for RootSquaredError {
    const NAME: &'static str = "root_mean_squared_error";

    fn measure(&self, label: Values<'_>, prediction: Values<'_>, out: &mut Vec<f64>) -> Result<()> {
        let pair = Pair::new(label, prediction)?;
        out.extend(pair.elements().map(|(label, prediction)| difference(label, prediction).powi(2)));
        Ok(())
    }

    fn finish(mean: f64) -> f64 {
        mean.sqrt()
    }
}

/// Appends Huber's loss: squared up to `delta`, absolute beyond.
pub(crate) fn huber(label: Values<'_>, prediction: Values<'_>, delta: f32, out: &mut Vec<f64>) -> Result<()> {
    let delta = f64::from(delta);
    row_means(label, prediction, out, |label, prediction| {
        let far = difference(label, prediction).abs();
        if far <= delta { 0.5 * far * far } else { delta * far - 0.5 * delta * delta }
    })
}

/// Returns the larger number, and NaN for NaN, which `f32::max` would hide.
pub(crate) fn at_least(number: f32, bound: f32) -> f32 {
    if number < bound { bound } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metric;

    #[test]
    fn a_prediction_of_nan_is_not_hidden() {
        let mut metrics: Vec<Box<dyn Metric>> = vec![
            Box::new(MeanSquaredError::new()),
            Box::new(MeanSquaredLogarithmicError::new()),
            Box::new(MeanAbsolutePercentageError::new()),
            Box::new(LogCoshError::new()),
        ];
        for metric in &mut metrics {
            metric.update(Values::column(&[1.0, 2.0]), Values::column(&[1.0, f32::NAN]), None).unwrap();
            assert!(metric.result().is_nan(), "{}", metric.name());
        }
    }

    #[test]
    fn a_large_difference_does_not_overflow() {
        let mut metric = LogCoshError::new();
        metric.update(Values::column(&[0.0, 0.0]), Values::column(&[-1e6, 1e6]), None).unwrap();
        assert!((metric.result() - (1e6 - std::f64::consts::LN_2)).abs() < 1e-6);
    }
}
