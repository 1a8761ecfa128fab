//! Metrics of the four counts: the counts themselves, precision and recall.

use std::marker::PhantomData;

use phalanx_base::Result;

use super::confusion::{Confusion, NEVER, by_confusion};
use super::metric::ratio;
use super::thresholds::Thresholds;
use super::{Counts, Metric, Values};

/// A number made of the four counts at a threshold.
pub trait OfCounts: Clone + Send + Sync + 'static {
    /// What the metric is called unless somebody says otherwise.
    const NAME: &'static str;

    /// The number.
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
    /// Whether the threshold is the default, which depends on `top_k`.
    default_threshold: bool,
    kind: PhantomData<K>,
}

/// How many were predicted and are true.
pub type TruePositives = CountMetric<TruePositive>;
/// How many were predicted and are not true.
pub type FalsePositives = CountMetric<FalsePositive>;
/// How many were not predicted and are not true.
pub type TrueNegatives = CountMetric<TrueNegative>;
/// How many were not predicted and are true.
pub type FalseNegatives = CountMetric<FalseNegative>;
/// The share of the predicted that are true.
pub type Precision = CountMetric<PrecisionOf>;
/// The share of the true that were predicted.
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
    /// What [`TruePositives`] counts.
    TruePositive, "true_positives", counts => counts.true_positives;
    /// What [`FalsePositives`] counts.
    FalsePositive, "false_positives", counts => counts.false_positives;
    /// What [`TrueNegatives`] counts.
    TrueNegative, "true_negatives", counts => counts.true_negatives;
    /// What [`FalseNegatives`] counts.
    FalseNegative, "false_negatives", counts => counts.false_negatives;
    /// The number of [`Precision`].
    PrecisionOf, "precision", counts => counts.precision();
    /// The number of [`Recall`].
    RecallOf, "recall", counts => counts.recall();
}

impl Counts {
    /// The share of the predicted that are true; 0 if nothing was predicted.
    #[must_use]
    pub fn precision(&self) -> f64 {
        ratio(self.true_positives, self.true_positives + self.false_positives)
    }

    /// The share of the true that were predicted, also called sensitivity; 0 if nothing is true.
    #[must_use]
    pub fn recall(&self) -> f64 {
        ratio(self.true_positives, self.true_positives + self.false_negatives)
    }

    /// The share of the untrue that were not predicted; 0 if everything is true.
    #[must_use]
    pub fn specificity(&self) -> f64 {
        ratio(self.true_negatives, self.true_negatives + self.false_positives)
    }

    /// The share of the untrue that were predicted; 0 if everything is true.
    #[must_use]
    pub fn false_positive_rate(&self) -> f64 {
        ratio(self.false_positives, self.false_positives + self.true_negatives)
    }
}

impl<K: OfCounts> CountMetric<K> {
    /// The metric with Keras' defaults.
    #[must_use]
    pub fn new() -> Self {
        let confusion = Confusion::new(Thresholds::one(0.5));
        Self { name: K::NAME.into(), confusion, default_threshold: true, kind: PhantomData }
    }

    /// The same metric under another name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// The thresholds above which a prediction is a yes; [`Metric::results`] has one number for each.
    ///
    /// # Errors
    /// When one is not in [0, 1].
    pub fn thresholds(mut self, thresholds: &[f32]) -> Result<Self> {
        self.confusion = self.confusion.with_thresholds(Thresholds::given(thresholds)?);
        self.default_threshold = false;
        Ok(self)
    }

    /// Only the `k` largest predictions of an example are a yes, whatever they are unless thresholds were given.
    ///
    /// # Errors
    /// When it is 0.
    pub fn top_k(mut self, k: usize) -> Result<Self> {
        if self.default_threshold {
            self.confusion = self.confusion.with_thresholds(Thresholds::one(NEVER));
        }
        self.confusion = self.confusion.with_top_k(k)?;
        Ok(self)
    }

    /// Looks at one column of truths and predictions only.
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
