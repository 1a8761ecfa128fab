//! Means and sums of values as they are.

use phalanx_base::Result;

use super::metric::ratio;
use super::weights::Weights;
use super::{Metric, Values};

/// Which side of a batch a [`Mean`] looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Truth,
    Prediction,
}

/// The weighted mean of values: Keras' `Mean`.
///
/// Fed with [`record`](Self::record), or as a metric of the predictions or the truths of a batch, which is what an
/// Estimator reports as `prediction/mean` and `label/mean`.
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
    /// The mean of what is recorded; as a metric, of the predictions.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), side: Side::Prediction, sums: [0.0; 2] }
    }

    /// The mean of the truths.
    #[must_use]
    pub fn of_truths(name: impl Into<String>) -> Self {
        Self { side: Side::Truth, ..Self::new(name) }
    }

    /// Counts values; `weights` has one number in all, or one for each value.
    ///
    /// # Errors
    /// When the lengths do not fit.
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
    fn name(&self) -> &str {
        &self.name
    }

    fn update(&mut self, truth: Values<'_>, prediction: Values<'_>, weights: Option<&[f32]>) -> Result<()> {
        let values = if self.side == Side::Truth { truth } else { prediction };
        let weights = Weights::new(weights, values.examples()?, values.width())?;
        self.add(values.floats().iter().map(|&value| f64::from(value)), weights);
        Ok(())
    }

    fn result(&self) -> f64 {
        ratio(self.sums[0], self.sums[1])
    }

    fn state(&self) -> &[f64] {
        &self.sums
    }

    fn state_mut(&mut self) -> &mut [f64] {
        &mut self.sums
    }

    fn fresh(&self) -> Box<dyn Metric> {
        Box::new(Self { name: self.name.clone(), side: self.side, sums: [0.0; 2] })
    }
}

/// The weighted sum of values: Keras' `Sum`. As a metric, of the predictions.
#[derive(Clone, Debug)]
pub struct Sum {
    name: String,
    sum: [f64; 1],
}

impl Sum {
    /// A sum that is reported under this name.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), sum: [0.0] }
    }

    /// Counts values; `weights` has one number in all, or one for each value.
    ///
    /// # Errors
    /// When the lengths do not fit.
    pub fn record(&mut self, values: &[f64], weights: Option<&[f32]>) -> Result<()> {
        let weights = Weights::new(weights, values.len(), 1)?;
        self.sum[0] += values.iter().enumerate().map(|(index, value)| value * weights.of(index)).sum::<f64>();
        Ok(())
    }
}

impl Metric for Sum {
    fn name(&self) -> &str {
        &self.name
    }

    fn update(&mut self, _truth: Values<'_>, prediction: Values<'_>, weights: Option<&[f32]>) -> Result<()> {
        let weights = Weights::new(weights, prediction.examples()?, prediction.width())?;
        let values = prediction.floats();
        self.sum[0] +=
            values.iter().enumerate().map(|(index, &value)| f64::from(value) * weights.of(index)).sum::<f64>();
        Ok(())
    }

    fn result(&self) -> f64 {
        self.sum[0]
    }

    fn state(&self) -> &[f64] {
        &self.sum
    }

    fn state_mut(&mut self) -> &mut [f64] {
        &mut self.sum
    }

    fn fresh(&self) -> Box<dyn Metric> {
        Box::new(Self::new(self.name.clone()))
    }
}

/// The best accuracy anybody gets who always gives the same answer: an Estimator's `accuracy_baseline`, the larger of
/// the mean of 0/1 truths and one minus it.
#[derive(Clone, Debug)]
pub struct AccuracyBaseline {
    truths: Mean,
}

impl AccuracyBaseline {
    /// The baseline under this name.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { truths: Mean::of_truths(name) }
    }
}

impl Metric for AccuracyBaseline {
    fn name(&self) -> &str {
        self.truths.name()
    }

    fn update(&mut self, truth: Values<'_>, prediction: Values<'_>, weights: Option<&[f32]>) -> Result<()> {
        self.truths.update(truth, prediction, weights)
    }

    fn result(&self) -> f64 {
        let [total, count] = self.truths.sums;
        ratio(total.max(count - total), count)
    }

    fn state(&self) -> &[f64] {
        self.truths.state()
    }

    fn state_mut(&mut self) -> &mut [f64] {
        self.truths.state_mut()
    }

    fn fresh(&self) -> Box<dyn Metric> {
        Box::new(Self::new(self.name()))
    }
}
