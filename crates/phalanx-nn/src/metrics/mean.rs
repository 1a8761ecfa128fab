//! Means and sums of values.

use phalanx_base::Result;

use super::metric::{by_sums, ratio};
use super::weights::Weights;
use super::{Metric, Values};

/// The side of a batch that a [`Mean`] averages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Labels,
    Prediction,
}

/// The weighted mean of values: Keras' `Mean`.
///
/// Values come from [`record`](Self::record), or from the predictions or labels of a batch, which an Estimator reports as
/// `prediction/mean` and `label/mean`.
///
/// ```
/// use phalanx_nn::metrics::{Mean, Metric};
/// let mut loss = Mean::new("average_loss");
/// loss.record(&[1.0, 3.0], Some(&[3.0, 1.0]))?;
/// assert_eq!(loss.result(), 1.5);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Mean {
    name: String,
    side: Side,
    /// Weighted sum, then sum of weights.
    sums: [f64; 2],
}

impl Mean {
    /// Returns the mean of recorded values or, as a metric, of the predictions.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), side: Side::Prediction, sums: [0.0; 2] }
    }

    /// Returns the mean of the labels.
    #[must_use]
    pub fn of_labels(name: impl Into<String>) -> Self {
        Self { side: Side::Labels, ..Self::new(name) }
    }

    /// Adds values; `weights` has a single number, or one per value.
    ///
    /// # Errors
    /// If the lengths do not match.
    pub fn record(&mut self, values: &[f64], weights: Option<&[f32]>) -> Result<()> {
        let weights = Weights::new(weights, values.len(), 1)?;
        self.add(values.iter().copied(), weights);
        Ok(())
    }

    fn add(&mut self, values: impl Iterator<Item = f64>, weights: Weights<'_>) {
        for (index, value) in values.enumerate() {
            let weight = weights.of(index);
            self.sums[0] += value * weight;
            self.sums[1] += weight;
        }
    }
}

impl Metric for Mean {
    by_sums!();

    fn update(&mut self, label: Values<'_>, prediction: Values<'_>, weights: Option<&[f32]>) -> Result<()> {
        let values = if self.side == Side::Labels { label } else { prediction };
        let weights = Weights::new(weights, values.examples()?, values.width())?;
        self.add(values.floats().iter().map(|&value| f64::from(value)), weights);
        Ok(())
    }

    fn result(&self) -> f64 {
        ratio(self.sums[0], self.sums[1])
    }

    fn fresh(&self) -> Box<dyn Metric> {
        Box::new(Self { name: self.name.clone(), side: self.side, sums: [0.0; 2] })
    }
}

/// The weighted sum of values: Keras' `Sum`. As a metric, it sums the predictions.
#[derive(Clone, Debug)]
pub struct Sum {
    name: String,
    sums: [f64; 1],
}

impl Sum {
    /// Returns a sum with this name.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), sums: [0.0] }
    }

    /// Adds values; `weights` has a single number, or one per value.
    ///
    /// # Errors
    /// If the lengths do not match.
    pub fn record(&mut self, values: &[f64], weights: Option<&[f32]>) -> Result<()> {
        self.sums[0] += Weights::new(weights, values.len(), 1)?.sum(values.iter().copied());
        Ok(())
    }
}

impl Metric for Sum {
    by_sums!();

    fn update(&mut self, _label: Values<'_>, prediction: Values<'_>, weights: Option<&[f32]>) -> Result<()> {
        let weights = Weights::new(weights, prediction.examples()?, prediction.width())?;
        self.sums[0] += weights.sum(prediction.floats().iter().map(|&value| f64::from(value)));
        Ok(())
    }

    fn result(&self) -> f64 {
        self.sums[0]
    }

    fn fresh(&self) -> Box<dyn Metric> {
        Box::new(Self::new(self.name.clone()))
    }
}

/// The best accuracy of a constant prediction: an Estimator's `accuracy_baseline`, the larger of the mean of 0/1 labels and
/// one minus it.
#[derive(Clone, Debug)]
pub struct AccuracyBaseline {
    labels: Mean,
}

impl AccuracyBaseline {
    /// Returns the baseline with this name.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { labels: Mean::of_labels(name) }
    }
}

impl Metric for AccuracyBaseline {
    fn name(&self) -> &str {
        self.labels.name()
    }

    fn update(&mut self, label: Values<'_>, prediction: Values<'_>, weights: Option<&[f32]>) -> Result<()> {
        self.labels.update(label, prediction, weights)
    }

    fn result(&self) -> f64 {
        let [total, count] = self.labels.sums;
        ratio(total.max(count - total), count)
    }

    fn state(&self) -> &[f64] {
        self.labels.state()
    }

    fn state_mut(&mut self) -> &mut [f64] {
        self.labels.state_mut()
    }

    fn fresh(&self) -> Box<dyn Metric> {
        Box::new(Self::new(self.name()))
    }
}
