//! What every metric can do.

use phalanx_base::{Code, Error, Result};

use super::Values;

/// A number that grows over batches, replicas and workers.
///
/// The state is a flat list of f64 sums, so two metrics merge by adding theirs: counts come out the same in any order
/// and any split, as do sums of f32 weights as long as f64 holds them exactly; other sums agree to the last bits of an
/// f64. A metric of your own needs the methods without a body.
///
/// ```
/// use phalanx_nn::metrics::{BinaryAccuracy, Metric, Values};
/// let mut here = BinaryAccuracy::new();
/// here.update(Values::column(&[1.0, 0.0]), Values::column(&[0.9, 0.8]), None)?;
/// // Another worker counts its own share and sends its state over.
/// let mut there = here.fresh();
/// there.update(Values::column(&[1.0, 1.0]), Values::column(&[0.7, 0.6]), None)?;
/// here.merge(&there.to_words())?;
/// assert_eq!(here.result(), 0.75);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
pub trait Metric: Send + Sync {
    /// The name it is reported under.
    fn name(&self) -> &str;

    /// Counts one batch. `weights` has one number for each example.
    ///
    /// # Errors
    /// When the shapes do not fit; nothing is counted then.
    fn update(&mut self, truth: Values<'_>, prediction: Values<'_>, weights: Option<&[f32]>) -> Result<()>;

    /// The value so far; 0 before anything was counted. Of several thresholds the first one's.
    fn result(&self) -> f64;

    /// The sums behind the value.
    fn state(&self) -> &[f64];

    /// The sums, to be set.
    fn state_mut(&mut self) -> &mut [f64];

    /// A metric with the same settings that has counted nothing: one for another replica.
    fn fresh(&self) -> Box<dyn Metric>;

    /// The values of all thresholds; of a metric without thresholds the one value.
    fn results(&self) -> Vec<f64> {
        vec![self.result()]
    }

    /// Forgets everything counted.
    fn reset(&mut self) {
        self.state_mut().fill(0.0);
    }

    /// Adds what another metric with the same settings has counted.
    ///
    /// # Errors
    /// When its state has another length: the settings differ.
    fn merge(&mut self, words: &[f64]) -> Result<()> {
        check_length(self.name(), self.state().len(), words.len())?;
        for (mine, theirs) in self.state_mut().iter_mut().zip(words) {
            *mine += theirs;
        }
        Ok(())
    }

    /// The state for the wire or a checkpoint.
    fn to_words(&self) -> Vec<f64> {
        self.state().to_vec()
    }

    /// Replaces the state by one that [`to_words`](Self::to_words) gave.
    ///
    /// # Errors
    /// When it has another length: the settings differ.
    fn load_words(&mut self, words: &[f64]) -> Result<()> {
        check_length(self.name(), self.state().len(), words.len())?;
        self.state_mut().copy_from_slice(words);
        Ok(())
    }
}

/// States add up only between metrics with the same settings.
fn check_length(name: &str, mine: usize, theirs: usize) -> Result<()> {
    if mine == theirs {
        return Ok(());
    }
    Err(Error::new(Code::ShapeMismatch, format!("a state of {theirs} numbers does not fit metric `{name}` of {mine}"))
        .because("the two metrics were made with different settings")
        .help("make the metric with the same settings on every task"))
}

/// `a / b`, and 0 where `b` is 0: TensorFlow's `divide_no_nan`.
#[inline]
pub(crate) fn ratio(a: f64, b: f64) -> f64 {
    if b == 0.0 { 0.0 } else { a / b }
}
