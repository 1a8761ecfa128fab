//! The best value of one rate, given a lower bound of another.

use std::marker::PhantomData;

use phalanx_base::{Code, Error, Result};

use super::confusion::{Confusion, by_confusion};
use super::thresholds::Thresholds;
use super::{Counts, Metric, Values};

/// A pair of rates, one of which has a lower bound.
pub trait Tradeoff: Clone + Send + Sync + 'static {
    /// The default name of the metric.
    const NAME: &'static str;

    /// Returns the rate that must reach the bound.
    fn bounded(counts: &Counts) -> f64;

    /// Returns the rate that is reported.
    fn reported(counts: &Counts) -> f64;
}

/// The largest value of a rate over all thresholds (200) at which another rate reaches a bound, 0 if there is none.
///
/// ```
/// use phalanx_nn::metrics::{Metric, PrecisionAtRecall, Values};
/// let mut metric = PrecisionAtRecall::new(0.5)?;
/// let label = Values::column(&[0.0, 0.0, 0.0, 1.0, 1.0]);
/// metric.update(label, Values::column(&[0.0, 0.3, 0.8, 0.3, 0.9]), None)?;
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
    /// Returns the metric with this bound and 200 thresholds.
    ///
    /// # Errors
    /// If the bound is not in [0, 1].
    pub fn new(bound: f32) -> Result<Self> {
        if !(0.0..=1.0).contains(&bound) {
            return Err(Error::new(Code::BadSetting, format!("`{}` with a bound of {bound}", T::NAME))
                .because("a rate is always in [0, 1]")
                .help("give a bound between 0 and 1"));
        }
        let confusion = Confusion::new(Thresholds::usual());
        Ok(Self { name: T::NAME.into(), bound, confusion, tradeoff: PhantomData })
    }

    setters! {
        /// Sets the name.
        named: impl Into<String> => name;
    }

    /// Sets the number of thresholds, evenly spaced from 0 to 1.
    ///
    /// # Errors
    /// If it is 0 or above ten million.
    pub fn num_thresholds(mut self, count: usize) -> Result<Self> {
        self.confusion = self.confusion.with_thresholds(Thresholds::spread(count)?);
        Ok(self)
    }

    /// Restricts the metric to one column of labels and predictions.
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
        // Compared in f32, as in Keras: 4 of 5 must reach a bound of 0.8.
        let counts = self.confusion.counts();
        let enough = counts.iter().filter(|counts| T::bounded(counts) as f32 >= self.bound);
        enough.map(T::reported).fold(0.0, f64::max)
    }
}
