//! The best of one rate where another is good enough.

use std::marker::PhantomData;

use phalanx_base::{Code, Error, Result};

use super::confusion::{Confusion, by_confusion};
use super::thresholds::Thresholds;
use super::{Counts, Metric, Values};

/// Two rates of which one is asked to be good enough.
pub trait Tradeoff: Clone + Send + Sync + 'static {
    /// What the metric is called unless somebody says otherwise.
    const NAME: &'static str;

    /// The rate that must reach the bound.
    fn bounded(counts: &Counts) -> f64;

    /// The rate that is reported.
    fn reported(counts: &Counts) -> f64;
}

/// The largest rate over all thresholds (200) where another rate reaches a bound; 0 where it never does.
///
/// ```
/// use phalanx_nn::metrics::{Metric, PrecisionAtRecall, Values};
/// let mut metric = PrecisionAtRecall::new(0.5)?;
/// let truth = Values::column(&[0.0, 0.0, 0.0, 1.0, 1.0]);
/// metric.update(truth, Values::column(&[0.0, 0.3, 0.8, 0.3, 0.9]), None)?;
/// assert_eq!(metric.result(), 1.0);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct BestAt<T> {
    name: String,
    bound: f32,
    confusion: Confusion,
    tradeoff: PhantomData<T>,
}

/// The best precision where recall is at least a bound.
pub type PrecisionAtRecall = BestAt<PrecisionByRecall>;
/// The best recall where precision is at least a bound.
pub type RecallAtPrecision = BestAt<RecallByPrecision>;
/// The best sensitivity where specificity is at least a bound.
pub type SensitivityAtSpecificity = BestAt<SensitivityBySpecificity>;
/// The best specificity where sensitivity is at least a bound.
pub type SpecificityAtSensitivity = BestAt<SpecificityBySensitivity>;

macro_rules! tradeoffs {
    ($($(#[$doc:meta])* $kind:ident, $name:literal, $reported:ident at $bounded:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $kind;

        impl Tradeoff for $kind {
            const NAME: &'static str = $name;

            fn bounded(counts: &Counts) -> f64 {
                counts.$bounded()
            }

            fn reported(counts: &Counts) -> f64 {
                counts.$reported()
            }
        }
    )*};
}

tradeoffs! {
    /// The rates of [`PrecisionAtRecall`].
    PrecisionByRecall, "precision_at_recall", precision at recall;
    /// The rates of [`RecallAtPrecision`].
    RecallByPrecision, "recall_at_precision", recall at precision;
    /// The rates of [`SensitivityAtSpecificity`].
    SensitivityBySpecificity, "sensitivity_at_specificity", recall at specificity;
    /// The rates of [`SpecificityAtSensitivity`].
    SpecificityBySensitivity, "specificity_at_sensitivity", specificity at recall;
}

impl<T: Tradeoff> BestAt<T> {
    /// The metric with this bound and 200 thresholds.
    ///
    /// # Errors
    /// When the bound is not in [0, 1].
    pub fn new(bound: f32) -> Result<Self> {
        if !(0.0..=1.0).contains(&bound) {
            return Err(Error::new(Code::BadSetting, format!("`{}` with a bound of {bound}", T::NAME))
                .because("a rate is never outside [0, 1]")
                .help("give a bound between 0 and 1"));
        }
        let confusion = Confusion::new(Thresholds::usual());
        Ok(Self { name: T::NAME.into(), bound, confusion, tradeoff: PhantomData })
    }

    /// The same metric under another name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// How many thresholds, evenly from 0 to 1, are tried.
    ///
    /// # Errors
    /// When it is 0 or beyond reason.
    pub fn num_thresholds(mut self, count: usize) -> Result<Self> {
        self.confusion = self.confusion.with_thresholds(Thresholds::spread(count)?);
        Ok(self)
    }

    /// Looks at one column of truths and predictions only.
    #[must_use]
    pub fn class_id(mut self, class: usize) -> Self {
        self.confusion = self.confusion.with_class_id(class);
        self
    }
}

impl<T: Tradeoff> Metric for BestAt<T> {
    by_confusion!();
    by_confusion!(update);

    fn result(&self) -> f64 {
        // Compared in f32, as Keras does: 4 of 5 must reach a bound of 0.8.
        let counts = self.confusion.counts();
        let enough = counts.iter().filter(|counts| T::bounded(counts) as f32 >= self.bound);
        enough.map(T::reported).fold(0.0, f64::max)
    }
}
