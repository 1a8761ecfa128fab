//! How far a prediction is off.
//!
//! Differences are taken in f64: they agree with Keras' f32 to its last digits. Where Keras' rounding to f32 can be
//! seen in the result (an epsilon added to a number near 1), it is rounded here too.

use phalanx_base::Result;

use super::{MeanMetric, Measure, Pair, Values};

/// What Keras adds or clips with to keep away from zero.
pub(crate) const EPSILON: f32 = 1e-7;

/// The mean of squared differences.
pub type MeanSquaredError = MeanMetric<SquaredError>;
/// The square root of the mean of squared differences.
pub type RootMeanSquaredError = MeanMetric<RootSquaredError>;
/// The mean of absolute differences.
pub type MeanAbsoluteError = MeanMetric<AbsoluteError>;
/// The mean of absolute differences in percent of the truth.
pub type MeanAbsolutePercentageError = MeanMetric<AbsolutePercentageError>;
/// The mean of squared differences of `log(1 + x)`.
pub type MeanSquaredLogarithmicError = MeanMetric<SquaredLogarithmicError>;
/// The mean of `log(cosh(difference))`: squared when small, absolute when large.
pub type LogCoshError = MeanMetric<LogCosh>;
/// The cosine of the angle between truth and prediction: 1 for the same direction.
pub type CosineSimilarity = MeanMetric<Cosine>;

/// Appends the mean over each row of a function of truth and prediction.
fn row_means(
    truth: Values<'_>,
    prediction: Values<'_>,
    out: &mut Vec<f64>,
    of: impl Fn(f32, f32) -> f64,
) -> Result<()> {
    let pair = Pair::new(truth, prediction)?;
    let width = pair.width as f64;
    out.extend(pair.rows().map(|(truth, prediction)| {
        truth.iter().zip(prediction).map(|(&truth, &prediction)| of(truth, prediction)).sum::<f64>() / width
    }));
    Ok(())
}

fn difference(truth: f32, prediction: f32) -> f64 {
    f64::from(prediction) - f64::from(truth)
}

/// The measure of [`MeanSquaredError`].
#[derive(Clone, Copy, Debug, Default)]
pub struct SquaredError;

impl Measure for SquaredError {
    const NAME: &'static str = "mean_squared_error";

    fn measure(&self, truth: Values<'_>, prediction: Values<'_>, out: &mut Vec<f64>) -> Result<()> {
        row_means(truth, prediction, out, |truth, prediction| difference(truth, prediction).powi(2))
    }
}

/// The measure of [`RootMeanSquaredError`].
#[derive(Clone, Copy, Debug, Default)]
pub struct RootSquaredError;

impl Measure for RootSquaredError {
    const NAME: &'static str = "root_mean_squared_error";

    fn measure(&self, truth: Values<'_>, prediction: Values<'_>, out: &mut Vec<f64>) -> Result<()> {
        let pair = Pair::new(truth, prediction)?;
        out.extend(pair.elements().map(|(truth, prediction)| difference(truth, prediction).powi(2)));
        Ok(())
    }

    fn finish(mean: f64) -> f64 {
        mean.sqrt()
    }
}

/// The measure of [`MeanAbsoluteError`].
#[derive(Clone, Copy, Debug, Default)]
pub struct AbsoluteError;

impl Measure for AbsoluteError {
    const NAME: &'static str = "mean_absolute_error";

    fn measure(&self, truth: Values<'_>, prediction: Values<'_>, out: &mut Vec<f64>) -> Result<()> {
        row_means(truth, prediction, out, |truth, prediction| difference(truth, prediction).abs())
    }
}

/// The measure of [`MeanAbsolutePercentageError`].
#[derive(Clone, Copy, Debug, Default)]
pub struct AbsolutePercentageError;

impl Measure for AbsolutePercentageError {
    const NAME: &'static str = "mean_absolute_percentage_error";

    fn measure(&self, truth: Values<'_>, prediction: Values<'_>, out: &mut Vec<f64>) -> Result<()> {
        row_means(truth, prediction, out, |truth, prediction| {
            100.0 * (difference(truth, prediction) / f64::from(at_least(truth.abs(), EPSILON))).abs()
        })
    }
}

/// The measure of [`MeanSquaredLogarithmicError`].
#[derive(Clone, Copy, Debug, Default)]
pub struct SquaredLogarithmicError;

impl Measure for SquaredLogarithmicError {
    const NAME: &'static str = "mean_squared_logarithmic_error";

    fn measure(&self, truth: Values<'_>, prediction: Values<'_>, out: &mut Vec<f64>) -> Result<()> {
        let log = |number: f32| f64::from(at_least(number, EPSILON) + 1.0).ln();
        row_means(truth, prediction, out, |truth, prediction| (log(prediction) - log(truth)).powi(2))
    }
}

/// The measure of [`LogCoshError`].
#[derive(Clone, Copy, Debug, Default)]
pub struct LogCosh;

impl Measure for LogCosh {
    const NAME: &'static str = "logcosh";

    fn measure(&self, truth: Values<'_>, prediction: Values<'_>, out: &mut Vec<f64>) -> Result<()> {
        row_means(truth, prediction, out, |truth, prediction| {
            // log(cosh(x)) without the overflow of cosh; even in x.
            let far = difference(truth, prediction).abs();
            far + (-2.0 * far).exp().ln_1p() - std::f64::consts::LN_2
        })
    }
}

/// The measure of [`CosineSimilarity`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Cosine;

impl Measure for Cosine {
    const NAME: &'static str = "cosine_similarity";

    fn measure(&self, truth: Values<'_>, prediction: Values<'_>, out: &mut Vec<f64>) -> Result<()> {
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>();
        // TensorFlow's l2_normalize divides by the root of the sum of squares, or of 1e-12 if that is larger.
        let length = |row: &[f32]| dot(row, row).max(1e-12).sqrt();
        let pair = Pair::new(truth, prediction)?;
        out.extend(
            pair.rows().map(|(truth, prediction)| dot(truth, prediction) / (length(truth) * length(prediction))),
        );
        Ok(())
    }
}

/// Appends Huber's loss: squared up to `delta`, absolute beyond.
pub(crate) fn huber(truth: Values<'_>, prediction: Values<'_>, delta: f32, out: &mut Vec<f64>) -> Result<()> {
    let delta = f64::from(delta);
    row_means(truth, prediction, out, |truth, prediction| {
        let far = difference(truth, prediction).abs();
        if far <= delta { 0.5 * far * far } else { delta * far - 0.5 * delta * delta }
    })
}

/// The larger one, and NaN for NaN: `f32::max` would hide it.
pub(crate) fn at_least(number: f32, bound: f32) -> f32 {
    if number < bound { bound } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metric;

    #[test]
    fn a_prediction_that_is_no_number_is_not_hidden() {
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
