//! How well predicted probabilities agree with the frequencies of labels.

use phalanx_base::Result;

use super::metric::{by_sums, ratio};
use super::weights::Weights;
use super::{Metric, Values};

/// The mean prediction divided by the mean label: 1 is calibrated, 2 predicts twice as much as there is. NaN where all labels
/// are 0.
///
/// ```
/// use phalanx_nn::metrics::{Calibration, Metric, Values};
/// let mut metric = Calibration::new("calibration");
/// metric.update(Values::column(&[1.0, 0.0, 0.0, 1.0]), Values::column(&[0.9, 0.5, 0.1, 1.0]), None)?;
/// assert!((metric.result() - 1.25).abs() < 1e-7);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Calibration {
    name: String,
    /// Of predictions, and of labels.
    sums: [f64; 2],
}

impl Calibration {
    /// Returns the metric with this name.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), sums: [0.0; 2] }
    }
}

impl Metric for Calibration {
    by_sums!();

    fn update(&mut self, label: Values<'_>, prediction: Values<'_>, weights: Option<&[f32]>) -> Result<()> {
        let weights = Weights::new(weights, prediction.examples()?, prediction.width())?;
        self.sums[0] += weights.sum(prediction.floats().iter().map(|&value| f64::from(value)));
        self.sums[1] += weights.sum(label.floats().iter().map(|&value| f64::from(value)));
        Ok(())
    }

    fn result(&self) -> f64 {
        match self.sums {
            [0.0, 0.0] => 0.0,
            [predictions, labels] => predictions / labels,
        }
    }

    fn fresh(&self) -> Box<dyn Metric> {
        Box::new(Self::new(self.name.clone()))
    }
}

/// The expected calibration error: predictions are sorted into bins of equal width, and the distances between the mean
/// prediction and the mean label of each bin are averaged, weighted by the bin's examples.
///
/// ```
/// use phalanx_nn::metrics::{CalibrationError, Metric, Values};
/// let mut metric = CalibrationError::new("ece", 10);
/// metric.update(Values::column(&[1.0, 0.0, 1.0, 0.0]), Values::column(&[0.75, 0.75, 0.25, 0.25]), None)?;
/// assert!((metric.result() - 0.25).abs() < 1e-7);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CalibrationError {
    name: String,
    /// For each bin: weights, predictions, labels.
    sums: Vec<f64>,
}

impl CalibrationError {
    /// Returns the metric with this name and number of bins, at least one.
    #[must_use]
    pub fn new(name: impl Into<String>, bins: usize) -> Self {
        Self { name: name.into(), sums: vec![0.0; 3 * bins.max(1)] }
    }
}

impl Metric for CalibrationError {
    by_sums!();

    fn update(&mut self, label: Values<'_>, prediction: Values<'_>, weights: Option<&[f32]>) -> Result<()> {
        let weights = Weights::new(weights, prediction.examples()?, prediction.width())?;
        let bins = self.sums.len() / 3;
        for (at, (&p, &y)) in prediction.floats().iter().zip(label.floats().iter()).enumerate() {
            // Bin i is [i/bins, (i+1)/bins); 1 belongs to the last one, and a prediction that is not a number to the first.
            let bin = ((f64::from(p) * bins as f64) as usize).min(bins - 1);
            let weight = weights.of(at);
            let sums = &mut self.sums[3 * bin..][..3];
            sums[0] += weight;
            sums[1] += weight * f64::from(p);
            sums[2] += weight * f64::from(y);
        }
        Ok(())
    }

    fn result(&self) -> f64 {
        let all: f64 = self.sums.chunks_exact(3).map(|bin| bin[0]).sum();
        ratio(self.sums.chunks_exact(3).map(|bin| (bin[1] - bin[2]).abs()).sum(), all)
    }

    fn fresh(&self) -> Box<dyn Metric> {
        Box::new(Self::new(self.name.clone(), self.sums.len() / 3))
    }
}

/// Normalized entropy (He et al., 2014): the mean log loss divided by that of a model which always predicts the mean label of
/// the same examples. Below 1 the model knows more than the base rate. NaN where all labels are equal.
///
/// Its predictions are the log losses of the examples.
///
/// ```
/// use phalanx_nn::metrics::{Metric, NormalizedEntropy, Values};
/// let mut metric = NormalizedEntropy::new("normalized_entropy");
/// let losses = [0.5_f32.ln().abs(); 4]; // as good as a coin
/// metric.update(Values::column(&[1.0, 0.0, 0.0, 0.0]), Values::column(&losses), None)?;
/// assert!(metric.result() > 1.2);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct NormalizedEntropy {
    name: String,
    /// Of losses, labels and weights.
    sums: [f64; 3],
}

impl NormalizedEntropy {
    /// Returns the metric with this name.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), sums: [0.0; 3] }
    }
}

impl Metric for NormalizedEntropy {
    by_sums!();

    fn update(&mut self, label: Values<'_>, prediction: Values<'_>, weights: Option<&[f32]>) -> Result<()> {
        let weights = Weights::new(weights, prediction.examples()?, prediction.width())?;
        let (losses, labels) = (prediction.floats(), label.floats());
        self.sums[0] += weights.sum(losses.iter().map(|&loss| f64::from(loss)));
        self.sums[1] += weights.sum(labels.iter().map(|&label| f64::from(label)));
        self.sums[2] += weights.sum(labels.iter().map(|_| 1.0));
        Ok(())
    }

    fn result(&self) -> f64 {
        let [losses, labels, count] = self.sums;
        if count == 0.0 {
            return 0.0;
        }
        let rate = labels / count;
        let term = |p: f64| if p > 0.0 { -p * p.ln() } else { 0.0 };
        // 0 / 0 is NaN: the entropy of a certain outcome is no measure.
        let entropy = term(rate) + term(1.0 - rate);
        if entropy > 0.0 { losses / count / entropy } else { f64::NAN }
    }

    fn fresh(&self) -> Box<dyn Metric> {
        Box::new(Self::new(self.name.clone()))
    }
}
