//! Metrics of the four counts: the counts, precision and recall.

use std::marker::PhantomData;

use phalanx_base::Result;

use super::confusion::{Confusion, NEVER, by_confusion};
use super::metric::ratio;
use super::thresholds::Thresholds;
use super::{Counts, Metric, Values};

/// A function of the four counts at a threshold.
pub trait OfCounts: Clone + Send + Sync + 'static {
    /// The default name of the metric.
    const NAME: &'static str;

    /// Returns the value.
    fn of(counts: &Counts) -> f64;
}

/// A metric of the counts at one threshold (0.5) or several.
///
/// ```
/// use phalanx_nn::metrics::{Metric, Precision, Values};
/// let mut precision = Precision::new().thresholds(&[0.5, 0.7])?;
/// precision.update(Values::column(&[1.0, 0.0, 1.0]), Values::column(&[0.9, 0.6, 0.2]), None)?;
/// assert_eq!((precision.result(), precision.results()), (0.5, vec![0.5, 1.0]));
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CountMetric<K> {
    name: String,
    confusion: Confusion,
    /// Whether to use the default threshold, which depends on `top_k`.
    default_threshold: bool,
    kind: PhantomData<K>,
}

/// The number of true positives.
pub type TruePositives = CountMetric<TruePositive>;
/// The number of false positives.
pub type FalsePositives = CountMetric<FalsePositive>;
/// The number of true negatives.
pub type TrueNegatives = CountMetric<TrueNegative>;
/// The number of false negatives.
pub type FalseNegatives = CountMetric<FalseNegative>;
/// The fraction of predicted positives that are positive.
pub type Precision = CountMetric<PrecisionOf>;
/// The fraction of positives that were predicted.
pub type Recall = CountMetric<RecallOf>;

macro_rules! of_counts {
    ($($(#[$doc:meta])* $kind:ident, $name:literal, $counts:ident => $of:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $kind;

        impl OfCounts for $kind {
            const NAME: &'static str = $name;

            fn of($counts: &Counts) -> f64 {
                $of
            }
        }
    )*};
}

of_counts! {
    /// The value of [`TruePositives`].
    TruePositive, "true_positives", counts => counts.true_positives;
    /// The value of [`FalsePositives`].
    FalsePositive, "false_positives", counts => counts.false_positives;
    /// The value of [`TrueNegatives`].
    TrueNegative, "true_negatives", counts => counts.true_negatives;
    /// The value of [`FalseNegatives`].
    FalseNegative, "false_negatives", counts => counts.false_negatives;
    /// The value of [`Precision`].
    PrecisionOf, "precision", counts => counts.precision();
    /// The value of [`Recall`].
    RecallOf, "recall", counts => counts.recall();
}

impl Counts {
    /// Returns the fraction of predicted positives that are positive, 0 without predicted positives.
    #[must_use]
    pub fn precision(&self) -> f64 {
        ratio(self.true_positives, self.true_positives + self.false_positives)
    }

    /// Returns the fraction of positives that were predicted, also called sensitivity; 0 without positives.
    #[must_use]
    pub fn recall(&self) -> f64 {
        ratio(self.true_positives, self.true_positives + self.false_negatives)
    }

    /// Returns the fraction of negatives that were not predicted positive, 0 without negatives.
    #[must_use]
    pub fn specificity(&self) -> f64 {
        ratio(self.true_negatives, self.true_negatives + self.false_positives)
    }

    /// Returns the fraction of negatives that were predicted positive, 0 without negatives.
    #[must_use]
    pub fn false_positive_rate(&self) -> f64 {
        ratio(self.false_positives, self.false_positives + self.true_negatives)
    }
}

impl<K: OfCounts> CountMetric<K> {
    /// Returns the metric with Keras' defaults.
    #[must_use]
    pub fn new() -> Self {
        let confusion = Confusion::new(Thresholds::one(0.5));
        Self { name: K::NAME.into(), confusion, default_threshold: true, kind: PhantomData }
    }

    setters! {
        /// Sets the name.
        named: impl Into<String> => name;
    }

    /// Sets the thresholds above which a prediction is positive; [`Metric::results`] has one value per threshold.
    ///
    /// # Errors
    /// If one is not in [0, 1].
    pub fn thresholds(mut self, thresholds: &[f32]) -> Result<Self> {
        self.confusion = self.confusion.with_thresholds(Thresholds::given(thresholds)?);
        self.default_threshold = false;
        Ok(self)
    }

    /// Counts only the `k` largest predictions of an example as positive; without thresholds, whatever their values.
    ///
    /// # Errors
    /// If it is 0.
    pub fn top_k(mut self, k: usize) -> Result<Self> {
        if self.default_threshold {
            self.confusion = self.confusion.with_thresholds(Thresholds::one(NEVER));
        }
        self.confusion = self.confusion.with_top_k(k)?;
        Ok(self)
    }

    /// Restricts the metric to one column of labels and predictions.
    #[must_use]
    pub fn class_id(mut self, class: usize) -> Self {
        self.confusion = self.confusion.with_class_id(class);
        self
    }
}

impl<K: OfCounts> Default for CountMetric<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: OfCounts> Metric for CountMetric<K> {
    by_confusion!();
    by_confusion!(update);

    fn result(&self) -> f64 {
        self.confusion.counts_as_given().first().map_or(0.0, K::of)
    }

    fn results(&self) -> Vec<f64> {
        self.confusion.counts_as_given().iter().map(K::of).collect()
    }
}
