//! Means of a function of label and prediction: Keras' `MeanMetricWrapper`.

use phalanx_base::Result;

use super::metric::{by_sums, ratio};
use super::weights::Weights;
use super::{Metric, Pair, Values};

/// A function of labels and predictions whose weighted mean is a metric.
pub trait Measure: Clone + Send + Sync + 'static {
    /// The default name of the metric.
    const NAME: &'static str;

    /// Appends its values: one per example, or the same number of values for every example.
    ///
    /// # Errors
    /// If the shapes do not match.
    fn measure(&self, label: Values<'_>, prediction: Values<'_>, out: &mut Vec<f64>) -> Result<()>;

    /// Appends a weight for each value, if the measure ignores some examples.
    fn counts(&self, _label: Values<'_>, _out: &mut Vec<f64>) {}

    /// Converts the mean to the metric's value.
    fn finish(mean: f64) -> f64 {
        mean
    }
}

/// Appends a function of the label and the prediction of each example.
pub(super) fn each_row(
    label: Values<'_>,
    prediction: Values<'_>,
    out: &mut Vec<f64>,
    of: impl Fn(&[f32], &[f32]) -> f64,
) -> Result<()> {
    out.extend(Pair::new(label, prediction)?.rows().map(|(label, prediction)| of(label, prediction)));
    Ok(())
}

/// Appends the mean over each row of a function of label and prediction.
pub(super) fn row_means(
    label: Values<'_>,
    prediction: Values<'_>,
    out: &mut Vec<f64>,
    of: impl Fn(f32, f32) -> f64,
) -> Result<()> {
    let width = prediction.width() as f64;
    each_row(label, prediction, out, |label, prediction| {
        label.iter().zip(prediction).map(|(&label, &prediction)| of(label, prediction)).sum::<f64>() / width
    })
}

/// Declares metrics, each with a measure that has no settings: its name in Keras and its values.
macro_rules! measures {
    ($($(#[$doc:meta])* $metric:ident = $measure:ident, $name:literal,
        |$label:ident, $prediction:ident, $out:ident| $values:expr;)*) => {$(
        $(#[$doc])*
        pub type $metric = MeanMetric<$measure>;

        #[doc = concat!("The measure of [`", stringify!($metric), "`].")]
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $measure;

        impl Measure for $measure {
            const NAME: &'static str = $name;

            fn measure(&self, $label: Values<'_>, $prediction: Values<'_>, $out: &mut Vec<f64>) -> Result<()> {
                $values
            }
        }
    )*};
}
pub(super) use measures;

/// The weighted mean of a [`Measure`] over all batches.
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
    /// Kept between batches to avoid allocations.
    values: Vec<f64>,
    counts: Vec<f64>,
}

impl<M: Measure + Default> MeanMetric<M> {
    /// Returns the metric with Keras' defaults.
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
    /// Returns the mean of `measure`.
    #[must_use]
    pub fn of(measure: M) -> Self {
        Self { name: M::NAME.into(), measure, sums: [0.0; 2], values: Vec::new(), counts: Vec::new() }
    }

    setters! {
        /// Sets the name.
        named: impl Into<String> => name;
    }
}

impl<M: Measure> Metric for MeanMetric<M> {
    by_sums!();

    fn update(&mut self, label: Values<'_>, prediction: Values<'_>, weights: Option<&[f32]>) -> Result<()> {
        let Self { name, measure, sums, values, counts } = self;
        let at = |error: phalanx_base::Error| error.at(format!("metric `{name}`"));
        values.clear();
        counts.clear();
        measure.measure(label, prediction, values).map_err(at)?;
        measure.counts(label, counts);
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

    fn fresh(&self) -> Box<dyn Metric> {
        Box::new(Self::of(self.measure.clone()).named(self.name.clone()))
    }
}

/// A custom measure: a function of the label and the prediction of one example.
///
/// ```
/// use phalanx_nn::metrics::{MeanMetric, Metric, PerExample, Values};
/// let worst = |label: &[f32], prediction: &[f32]| {
///     label.iter().zip(prediction).map(|(t, p)| f64::from((t - p).abs())).fold(0.0, f64::max)
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

    fn measure(&self, label: Values<'_>, prediction: Values<'_>, out: &mut Vec<f64>) -> Result<()> {
        each_row(label, prediction, out, &self.0)
    }
}
