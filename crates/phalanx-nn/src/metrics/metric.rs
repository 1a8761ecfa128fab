//! The trait of metrics.

use phalanx_base::{Code, Error, Result};

use super::Values;

/// A value that is accumulated over batches, replicas and workers.
///
/// The state is a list of f64 sums, so metrics merge by adding their states. Counts, and sums of f32 weights that f64
/// represents exactly, do not depend on the order or the split of the batches; other sums agree to the last bits of an f64.
/// A custom metric implements the methods without a body.
///
/// ```
/// use phalanx_nn::metrics::{BinaryAccuracy, Metric, Values};
/// let mut here = BinaryAccuracy::new();
/// here.update(Values::column(&[1.0, 0.0]), Values::column(&[0.9, 0.8]), None)?;
/// // Another worker evaluates its own batches and sends its state.
/// let mut there = here.fresh();
/// there.update(Values::column(&[1.0, 1.0]), Values::column(&[0.7, 0.6]), None)?;
/// here.merge(&there.to_words())?;
/// assert_eq!(here.result(), 0.75);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
pub trait Metric: Send + Sync {
    /// Returns the name under which it is reported.
    fn name(&self) -> &str;

    /// Adds a batch. `weights` has one number per example.
    ///
    /// # Errors
    /// If the shapes do not match. The state is then unchanged.
    fn update(&mut self, label: Values<'_>, prediction: Values<'_>, weights: Option<&[f32]>) -> Result<()>;

    /// Returns the value so far, 0 without batches. With several thresholds, it is the value of the first.
    fn result(&self) -> f64;

    /// Returns the sums behind the value.
    fn state(&self) -> &[f64];

    /// Returns the sums for modification.
    fn state_mut(&mut self) -> &mut [f64];

    /// Returns an empty metric with the same settings, for another replica.
    fn fresh(&self) -> Box<dyn Metric>;

    /// Returns the values of all thresholds, or the only value of a metric without thresholds.
    fn results(&self) -> Vec<f64> {
        vec![self.result()]
    }

    /// Clears the state.
    fn reset(&mut self) {
        self.state_mut().fill(0.0);
    }

    /// Adds the state of another metric with the same settings.
    ///
    /// # Errors
    /// If the state has another length, because the settings differ.
    fn merge(&mut self, words: &[f64]) -> Result<()> {
        check_length(self.name(), self.state().len(), words.len())?;
        for (mine, theirs) in self.state_mut().iter_mut().zip(words) {
            *mine += theirs;
        }
        Ok(())
    }

    /// Returns the state, for the wire or a checkpoint.
    fn to_words(&self) -> Vec<f64> {
        self.state().to_vec()
    }

    /// Replaces the state by one from [`to_words`](Self::to_words).
    ///
    /// # Errors
    /// If the state has another length, because the settings differ.
    fn load_words(&mut self, words: &[f64]) -> Result<()> {
        check_length(self.name(), self.state().len(), words.len())?;
        self.state_mut().copy_from_slice(words);
        Ok(())
    }
}

/// The methods of [`Metric`] for a type with the fields `name` and `sums`.
macro_rules! by_sums {
    () => {
        fn name(&self) -> &str {
            &self.name
        }

        fn state(&self) -> &[f64] {
            &self.sums
        }

        fn state_mut(&mut self) -> &mut [f64] {
            &mut self.sums
        }
    };
}
pub(super) use by_sums;

/// Checks that two states have the same length.
fn check_length(name: &str, mine: usize, theirs: usize) -> Result<()> {
    if mine == theirs {
        return Ok(());
    }
    Err(Error::new(Code::ShapeMismatch, format!("a state of {theirs} numbers does not fit metric `{name}` of {mine}"))
        .because("the two metrics were made with different settings")
        .help("make the metric with the same settings on every task"))
}

/// `a / b`, or 0 if `b` is 0: TensorFlow's `divide_no_nan`.
#[inline]
pub(crate) fn ratio(a: f64, b: f64) -> f64 {
    if b == 0.0 { 0.0 } else { a / b }
}
