//! The three cross-entropies of Keras, from probabilities or from logits.
//!
//! Probabilities are clipped in f32, because `1 - 1e-7` rounds there and the result shows it.

use phalanx_base::{Code, Error, Result};

use super::regression::EPSILON;
use super::{MeanMetric, Measure, Pair, Sparse, Values};

/// The mean cross-entropy of 0/1 truths.
pub type BinaryCrossentropy = MeanMetric<BinaryEntropy>;
/// The mean cross-entropy of one-hot truths.
pub type CategoricalCrossentropy = MeanMetric<CategoricalEntropy>;
/// The mean cross-entropy of class numbers as truths.
pub type SparseCategoricalCrossentropy = MeanMetric<SparseEntropy>;

/// The settings of a metric whose measure has these fields.
macro_rules! entropy_settings {
    ($metric:ident, $even:literal) => {
        impl $metric {
            /// Takes predictions for logits.
            #[must_use]
            pub fn from_logits(mut self, yes: bool) -> Self {
                self.measure.from_logits = yes;
                self
            }

            #[doc = concat!("Moves truths towards ", $even, ".")]
            #[must_use]
            pub fn label_smoothing(mut self, smoothing: f32) -> Self {
                self.measure.label_smoothing = smoothing;
                self
            }
        }
    };
}

/// The measure of [`BinaryCrossentropy`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BinaryEntropy {
    /// Whether predictions are logits.
    pub from_logits: bool,
    /// How far truths are moved towards one half.
    pub label_smoothing: f32,
}

entropy_settings!(BinaryCrossentropy, "one half");

impl Measure for BinaryEntropy {
    const NAME: &'static str = "binary_crossentropy";

    fn measure(&self, truth: Values<'_>, prediction: Values<'_>, out: &mut Vec<f64>) -> Result<()> {
        let pair = Pair::new(truth, prediction)?;
        let smoothing = f64::from(self.label_smoothing);
        let of = |(&truth, &prediction): (&f32, &f32)| {
            let truth = f64::from(truth) * (1.0 - smoothing) + 0.5 * smoothing;
            if self.from_logits { sigmoid_entropy(truth, prediction) } else { binary_entropy(truth, prediction) }
        };
        out.extend(
            pair.rows()
                .map(|(truth, prediction)| truth.iter().zip(prediction).map(of).sum::<f64>() / pair.width as f64),
        );
        Ok(())
    }
}

fn binary_entropy(truth: f64, prediction: f32) -> f64 {
    let p = clip(prediction);
    let (yes, no) = (f64::from(p + EPSILON).ln(), f64::from(1.0 - p + EPSILON).ln());
    -(truth * yes + (1.0 - truth) * no)
}

fn sigmoid_entropy(truth: f64, logit: f32) -> f64 {
    let x = f64::from(logit);
    // Written so that no exponential overflows; NaN stays NaN.
    let positive = if x < 0.0 { 0.0 } else { x };
    positive - x * truth + (-x.abs()).exp().ln_1p()
}

/// The measure of [`CategoricalCrossentropy`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CategoricalEntropy {
    /// Whether predictions are logits.
    pub from_logits: bool,
    /// How far truths are moved towards the even distribution.
    pub label_smoothing: f32,
}

entropy_settings!(CategoricalCrossentropy, "the even distribution");

impl Measure for CategoricalEntropy {
    const NAME: &'static str = "categorical_crossentropy";

    fn measure(&self, truth: Values<'_>, prediction: Values<'_>, out: &mut Vec<f64>) -> Result<()> {
        let pair = Pair::new(truth, prediction)?;
        let smoothing = f64::from(self.label_smoothing);
        let smooth = |truth: f32| f64::from(truth) * (1.0 - smoothing) + smoothing / pair.width as f64;
        out.extend(pair.rows().map(|(truth, prediction)| {
            let logs = |number: f32, scale: f64| {
                if self.from_logits { f64::from(number) - scale } else { f64::from(clip(number / scale as f32)).ln() }
            };
            let scale = if self.from_logits {
                log_sum_exp(prediction)
            } else {
                prediction.iter().map(|&number| f64::from(number)).sum()
            };
            -truth.iter().zip(prediction).map(|(&truth, &number)| smooth(truth) * logs(number, scale)).sum::<f64>()
        }));
        Ok(())
    }
}

/// The measure of [`SparseCategoricalCrossentropy`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SparseEntropy {
    /// Whether predictions are logits.
    pub from_logits: bool,
    /// A class whose examples are left out.
    pub ignore_class: Option<i64>,
}

impl SparseCategoricalCrossentropy {
    /// Takes predictions for logits.
    #[must_use]
    pub fn from_logits(mut self, yes: bool) -> Self {
        self.measure.from_logits = yes;
        self
    }

    /// Leaves out the examples of this class, which need not be one of the model's.
    #[must_use]
    pub fn ignore_class(mut self, class: i64) -> Self {
        self.measure.ignore_class = Some(class);
        self
    }
}

impl Measure for SparseEntropy {
    const NAME: &'static str = "sparse_categorical_crossentropy";

    fn measure(&self, truth: Values<'_>, prediction: Values<'_>, out: &mut Vec<f64>) -> Result<()> {
        let pair = Sparse::new(truth, prediction)?;
        let mut logs = vec![0.0_f32; pair.width];
        for (row, (class, prediction)) in pair.rows().enumerate() {
            if self.ignore_class == Some(class) {
                out.push(0.0);
                continue;
            }
            let class = usize::try_from(class).ok().filter(|&class| class < pair.width).ok_or_else(|| {
                Error::new(Code::DataRow, format!("class {class} in row {row}, but the model has {}", pair.width))
                    .help("number the classes from 0, or give the model one output for each class")
            })?;
            let logits = if self.from_logits {
                prediction
            } else {
                // Keras feeds the logarithms as logits, so probabilities that do not add up to 1 are scaled.
                logs.iter_mut().zip(prediction).for_each(|(log, &number)| *log = clip(number).ln());
                &logs
            };
            out.push(log_sum_exp(logits) - f64::from(logits[class]));
        }
        Ok(())
    }

    fn counts(&self, truth: Values<'_>, out: &mut Vec<f64>) {
        if let (Some(ignored), Ok(classes)) = (self.ignore_class, truth.class_ids()) {
            out.extend(classes.iter().map(|&class| f64::from(u8::from(class != ignored))));
        }
    }
}

/// Keeps a probability away from 0 and 1, as Keras does in f32; NaN stays NaN.
pub(crate) fn clip(probability: f32) -> f32 {
    probability.clamp(EPSILON, 1.0 - EPSILON)
}

/// `log(Σ exp(x))` without overflow.
fn log_sum_exp(logits: &[f32]) -> f64 {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let largest = if largest.is_finite() { f64::from(largest) } else { 0.0 };
    largest + logits.iter().map(|&logit| (f64::from(logit) - largest).exp()).sum::<f64>().ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metric;

    #[test]
    fn a_class_out_of_range_is_named() {
        let mut metric = SparseCategoricalCrossentropy::new();
        let error = metric.update(Values::ids(&[0, 3]), Values::rows(&[0.2; 6], 3), None).unwrap_err();
        assert_eq!((error.code(), error.what()), (Code::DataRow, "class 3 in row 1, but the model has 3"));
        assert_eq!(metric.state(), [0.0, 0.0], "a batch that fails counts nothing");
        assert!(metric.update(Values::column(&[f32::NAN]), Values::rows(&[0.2; 3], 3), None).is_err());
    }

    #[test]
    fn large_logits_do_not_overflow() {
        let mut metric = CategoricalCrossentropy::new().from_logits(true);
        metric.update(Values::rows(&[0.0, 1.0], 2), Values::rows(&[1000.0, -1000.0], 2), None).unwrap();
        assert_eq!(metric.result(), 2000.0);
        let mut metric = BinaryCrossentropy::new().from_logits(true);
        metric.update(Values::column(&[0.0, 1.0]), Values::column(&[500.0, 500.0]), None).unwrap();
        assert_eq!(metric.result(), 250.0);
    }
}
