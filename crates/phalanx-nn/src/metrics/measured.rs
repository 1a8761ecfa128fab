//! Means of a function of truth and prediction: Keras' `MeanMetricWrapper`.

use phalanx_base::Result;

use super::metric::ratio;
use super::weights::Weights;
use super::{Metric, Pair, Values};

/// A function of truths and predictions whose weighted mean is a metric.
pub trait Measure: Clone + Send + Sync + 'static {
    /// What the metric is called unless somebody says otherwise.
    const NAME: &'static str;

    /// Appends its values: one for each example, or the same number for every example.
    ///
    /// # Errors
    /// When the shapes do not fit.
    fn measure(&self, truth: Values<'_>, prediction: Values<'_>, out: &mut Vec<f64>) -> Result<()>;

    /// Appends its own weights beside the values, where it leaves some examples out.
    fn counts(&self, _truth: Values<'_>, _out: &mut Vec<f64>) {}

    /// Makes the metric's value of the mean.
    fn finish(mean: f64) -> f64 {
        mean
    }
}

/// The weighted mean of a [`Measure`] over everything seen.
///
/// ```
/// use phalanx_nn::metrics::{MeanSquaredError, Metric, Values};
/// let mut error = MeanSquaredError::new();
/// error.update(Values::column(&[1.0, 2.0]), Values::column(&[1.0, 4.0]), Some(&[1.0, 3.0]))?;
/// assert_eq!((error.name(), error.result()), ("mean_squared_error", 3.0));
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct MeanMetric<M> {
    name: String,
    pub(crate) measure: M,
    /// Weighted sum, then sum of weights.
    sums: [f64; 2],
    /// Kept between batches to spare the allocation.
    values: Vec<f64>,
    counts: Vec<f64>,
}

impl<M: Measure + Default> MeanMetric<M> {
    /// The metric with Keras' defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::of(M::default())
    }
}

impl<M: Measure + Default> Default for MeanMetric<M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<M: Measure> MeanMetric<M> {
    /// The mean of `measure`.
    #[must_use]
    pub fn of(measure: M) -> Self {
        Self { name: M::NAME.into(), measure, sums: [0.0; 2], values: Vec::new(), counts: Vec::new() }
    }

    /// The same metric under another name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }
}

impl<M: Measure> Metric for MeanMetric<M> {
    fn name(&self) -> &str {
        &self.name
    }

    fn update(&mut self, truth: Values<'_>, prediction: Values<'_>, weights: Option<&[f32]>) -> Result<()> {
        let Self { name, measure, sums, values, counts } = self;
        let at = |error: phalanx_base::Error| error.at(format!("metric `{name}`"));
        values.clear();
        counts.clear();
        measure.measure(truth, prediction, values).map_err(at)?;
        measure.counts(truth, counts);
        let examples = prediction.examples().map_err(at)?;
        let weights = Weights::new(weights, examples, values.len().checked_div(examples).unwrap_or(1)).map_err(at)?;
        for (index, value) in values.iter().enumerate() {
            let weight = weights.of(index) * counts.get(index).copied().unwrap_or(1.0);
            sums[0] += value * weight;
            sums[1] += weight;
        }
        Ok(())
    }

    fn result(&self) -> f64 {
        M::finish(ratio(self.sums[0], self.sums[1]))
    }

    fn state(&self) -> &[f64] {
        &self.sums
    }

    fn state_mut(&mut self) -> &mut [f64] {
        &mut self.sums
    }

    fn fresh(&self) -> Box<dyn Metric> {
        Box::new(Self::of(self.measure.clone()).named(self.name.clone()))
    }
}

/// A function of one example's truth and prediction as a measure of your own.
///
/// ```
/// use phalanx_nn::metrics::{MeanMetric, Metric, PerExample, Values};
/// let worst = |truth: &[f32], prediction: &[f32]| {
///     truth.iter().zip(prediction).map(|(t, p)| f64::from((t - p).abs())).fold(0.0, f64::max)
/// };
/// let mut metric = MeanMetric::of(PerExample(worst)).named("worst");
/// metric.update(Values::rows(&[0.0, 0.0], 2), Values::rows(&[1.0, -3.0], 2), None)?;
/// assert_eq!(metric.result(), 3.0);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PerExample<F>(pub F);

impl<F: Fn(&[f32], &[f32]) -> f64 + Clone + Send + Sync + 'static> Measure for PerExample<F> {
    const NAME: &'static str = "custom";

    fn measure(&self, truth: Values<'_>, prediction: Values<'_>, out: &mut Vec<f64>) -> Result<()> {
        let pair = Pair::new(truth, prediction)?;
        out.extend(pair.rows().map(|(truth, prediction)| (self.0)(truth, prediction)));
        Ok(())
    }
}
