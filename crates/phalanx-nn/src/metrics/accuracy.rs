//! How often a prediction is right.

use phalanx_base::{Code, Error, Result};

use super::{MeanMetric, Measure, Pair, Sparse, Values};

/// How often truth and prediction are equal.
pub type Accuracy = MeanMetric<Equal>;
/// How often a prediction above the threshold (0.5) meets a truth of 1, and one below it a truth of 0.
pub type BinaryAccuracy = MeanMetric<BinaryMatch>;
/// How often the largest prediction is where the one-hot truth has its one.
pub type CategoricalAccuracy = MeanMetric<CategoricalMatch>;
/// How often the largest prediction is the class that the truth names.
pub type SparseCategoricalAccuracy = MeanMetric<SparseCategoricalMatch>;
/// How often the class of the one-hot truth is among the `k` (5) largest predictions.
pub type TopKCategoricalAccuracy = MeanMetric<TopKMatch>;
/// How often the class that the truth names is among the `k` (5) largest predictions.
pub type SparseTopKCategoricalAccuracy = MeanMetric<SparseTopKMatch>;

/// The measure of [`Accuracy`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Equal;

impl Measure for Equal {
    const NAME: &'static str = "accuracy";

    fn measure(&self, truth: Values<'_>, prediction: Values<'_>, out: &mut Vec<f64>) -> Result<()> {
        let pair = Pair::new(truth, prediction)?;
        if let (Values::Ids(truth), Values::Ids(prediction)) = (truth, prediction) {
            // Large ids are not the same for being the same as f32.
            out.extend(truth.iter().zip(prediction).map(|(truth, prediction)| hit(truth == prediction)));
        } else {
            out.extend(pair.elements().map(|(truth, prediction)| hit(truth == prediction)));
        }
        Ok(())
    }
}

/// The measure of [`BinaryAccuracy`].
#[derive(Clone, Copy, Debug)]
pub struct BinaryMatch {
    threshold: f32,
}

impl Default for BinaryMatch {
    fn default() -> Self {
        Self { threshold: 0.5 }
    }
}

impl BinaryAccuracy {
    /// Predictions above this are taken for 1.
    #[must_use]
    pub fn threshold(mut self, threshold: f32) -> Self {
        self.measure.threshold = threshold;
        self
    }
}

impl Measure for BinaryMatch {
    const NAME: &'static str = "binary_accuracy";

    fn measure(&self, truth: Values<'_>, prediction: Values<'_>, out: &mut Vec<f64>) -> Result<()> {
        let pair = Pair::new(truth, prediction)?;
        let taken = |prediction: f32| f32::from(u8::from(prediction > self.threshold));
        out.extend(pair.elements().map(|(truth, prediction)| hit(truth == taken(prediction))));
        Ok(())
    }
}

/// The measure of [`CategoricalAccuracy`].
#[derive(Clone, Copy, Debug, Default)]
pub struct CategoricalMatch;

impl Measure for CategoricalMatch {
    const NAME: &'static str = "categorical_accuracy";

    fn measure(&self, truth: Values<'_>, prediction: Values<'_>, out: &mut Vec<f64>) -> Result<()> {
        let pair = Pair::new(truth, prediction)?;
        out.extend(pair.rows().map(|(truth, prediction)| hit(argmax(truth) == argmax(prediction))));
        Ok(())
    }
}

/// The measure of [`SparseCategoricalAccuracy`].
#[derive(Clone, Copy, Debug, Default)]
pub struct SparseCategoricalMatch;

impl Measure for SparseCategoricalMatch {
    const NAME: &'static str = "sparse_categorical_accuracy";

    fn measure(&self, truth: Values<'_>, prediction: Values<'_>, out: &mut Vec<f64>) -> Result<()> {
        let pair = Sparse::new(truth, prediction)?;
        out.extend(pair.rows().map(|(class, prediction)| hit(usize::try_from(class) == Ok(argmax(prediction)))));
        Ok(())
    }
}

/// The measure of [`TopKCategoricalAccuracy`].
#[derive(Clone, Copy, Debug)]
pub struct TopKMatch {
    k: usize,
}

impl Default for TopKMatch {
    fn default() -> Self {
        Self { k: 5 }
    }
}

impl TopKCategoricalAccuracy {
    /// How many of the largest predictions count.
    ///
    /// # Errors
    /// When it is 0.
    pub fn k(mut self, k: usize) -> Result<Self> {
        self.measure.k = check_k(k)?;
        Ok(self)
    }
}

impl Measure for TopKMatch {
    const NAME: &'static str = "top_k_categorical_accuracy";

    fn measure(&self, truth: Values<'_>, prediction: Values<'_>, out: &mut Vec<f64>) -> Result<()> {
        let pair = Pair::new(truth, prediction)?;
        out.extend(pair.rows().map(|(truth, prediction)| hit(in_top_k(prediction, argmax(truth), self.k))));
        Ok(())
    }
}

/// The measure of [`SparseTopKCategoricalAccuracy`].
#[derive(Clone, Copy, Debug)]
pub struct SparseTopKMatch {
    k: usize,
}

impl Default for SparseTopKMatch {
    fn default() -> Self {
        Self { k: 5 }
    }
}

impl SparseTopKCategoricalAccuracy {
    /// How many of the largest predictions count.
    ///
    /// # Errors
    /// When it is 0.
    pub fn k(mut self, k: usize) -> Result<Self> {
        self.measure.k = check_k(k)?;
        Ok(self)
    }
}

impl Measure for SparseTopKMatch {
    const NAME: &'static str = "sparse_top_k_categorical_accuracy";

    fn measure(&self, truth: Values<'_>, prediction: Values<'_>, out: &mut Vec<f64>) -> Result<()> {
        let pair = Sparse::new(truth, prediction)?;
        let class = |class: i64| usize::try_from(class).unwrap_or(usize::MAX);
        out.extend(pair.rows().map(|(truth, prediction)| hit(in_top_k(prediction, class(truth), self.k))));
        Ok(())
    }
}

fn hit(right: bool) -> f64 {
    f64::from(u8::from(right))
}

/// The place of the largest number, the first of several. A row of NaN has its largest at 0.
pub(crate) fn argmax(row: &[f32]) -> usize {
    let mut best = 0;
    for (index, number) in row.iter().enumerate() {
        if *number > row[best] {
            best = index;
        }
    }
    best
}

/// Whether fewer than `k` classes are more probable than this one. As TensorFlow says it: ties are in, a row with a
/// number that is not finite and a class that is not there are out.
fn in_top_k(prediction: &[f32], class: usize, k: usize) -> bool {
    let Some(&mine) = prediction.get(class) else { return false };
    prediction.iter().all(|number| number.is_finite()) && prediction.iter().filter(|&&other| other > mine).count() < k
}

/// `k` of a top-k metric.
pub(crate) fn check_k(k: usize) -> Result<usize> {
    if k == 0 {
        return Err(Error::new(Code::BadSetting, "the top 0 predictions never contain anything").help("give k ≥ 1"));
    }
    Ok(k)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metric;

    #[test]
    fn the_first_of_equals_is_the_largest_and_ties_are_in_the_top() {
        assert_eq!(argmax(&[1.0, 3.0, 3.0]), 1);
        assert!(in_top_k(&[0.5, 0.5, 0.1], 1, 1));
        assert!(!in_top_k(&[0.6, 0.5, 0.1], 1, 1));
        assert!(!in_top_k(&[f32::NAN, 0.5], 1, 2));
        assert!(!in_top_k(&[0.6, 0.5], 2, 5));
        assert_eq!(TopKCategoricalAccuracy::new().k(0).unwrap_err().code(), Code::BadSetting);
    }

    #[test]
    fn large_ids_are_compared_as_ids() {
        let mut accuracy = Accuracy::new();
        accuracy.update(Values::ids(&[16_777_217, 5]), Values::ids(&[16_777_216, 5]), None).unwrap();
        assert_eq!(accuracy.result(), 0.5);
    }

    #[test]
    fn a_class_that_is_not_there_is_never_met() {
        let mut accuracy = SparseCategoricalAccuracy::new();
        accuracy.update(Values::ids(&[-1, 2, 1]), Values::rows(&[0.2, 0.8, 0.2, 0.8, 0.2, 0.8], 2), None).unwrap();
        assert!((accuracy.result() - 1.0 / 3.0).abs() < 1e-15);
    }
}
