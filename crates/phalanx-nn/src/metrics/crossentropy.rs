//! Keras' three cross-entropies, from probabilities or logits.
//!
//! Probabilities are clipped in f32, where `1 - 1e-7` rounds visibly.

use phalanx_base::{Code, Error, Result};

use super::measured::{each_row, row_means};
use super::regression::EPSILON;
use super::{MeanMetric, Measure, Sparse, Values};

/// The mean cross-entropy of 0/1 labels.
pub type BinaryCrossentropy = MeanMetric<BinaryEntropy>;
/// The mean cross-entropy of one-hot labels.
pub type CategoricalCrossentropy = MeanMetric<CategoricalEntropy>;
/// The mean cross-entropy of labels that are class numbers.
pub type SparseCategoricalCrossentropy = MeanMetric<SparseEntropy>;

/// Declares the measure of a metric with label smoothing, and its settings.
macro_rules! smoothed {
    ($metric:ident, $measure:ident, $even:literal) => {
        #[doc = concat!("The measure of [`", stringify!($metric), "`].")]
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub struct $measure {
            /// Whether predictions are logits.
            pub from_logits: bool,
            #[doc = concat!("How far labels are moved towards ", $even, ", from 0 to 1.")]
            pub label_smoothing: f32,
        }

        impl $metric {
            setters! {
                /// Sets whether predictions are logits.
                from_logits: bool => measure.from_logits;
                #[doc = concat!("Sets how far labels are moved towards ", $even, ", from 0 to 1.")]
                label_smoothing: f32 => measure.label_smoothing;
            }
        }
    };
}

smoothed!(BinaryCrossentropy, BinaryEntropy, "one half");
smoothed!(CategoricalCrossentropy, CategoricalEntropy, "the uniform distribution");

impl Measure for BinaryEntropy {
    const NAME: &'static str = "binary_crossentropy";

    fn measure(&self, label: Values<'_>, prediction: Values<'_>, out: &mut Vec<f64>) -> Result<()> {
        let smoothing = f64::from(self.label_smoothing);
        row_means(label, prediction, out, |label, prediction| {
            let label = f64::from(label) * (1.0 - smoothing) + 0.5 * smoothing;
            if self.from_logits { sigmoid_entropy(label, prediction) } else { binary_entropy(label, prediction) }
        })
    }
}

fn binary_entropy(label: f64, prediction: f32) -> f64 {
    let p = clip(prediction);
    let (yes, no) = (f64::from(p + EPSILON).ln(), f64::from(1.0 - p + EPSILON).ln());
    -(label * yes + (1.0 - label) * no)
}

fn sigmoid_entropy(label: f64, logit: f32) -> f64 {
    let x = f64::from(logit);
    // In a form in which no exponential overflows and NaN stays NaN.
    let positive = if x < 0.0 { 0.0 } else { x };
    positive - x * label + (-x.abs()).exp().ln_1p()
}

impl Measure for CategoricalEntropy {
    const NAME: &'static str = "categorical_crossentropy";

    fn measure(&self, label: Values<'_>, prediction: Values<'_>, out: &mut Vec<f64>) -> Result<()> {
        let (smoothing, width) = (f64::from(self.label_smoothing), prediction.width() as f64);
        let smooth = |label: f32| f64::from(label) * (1.0 - smoothing) + smoothing / width;
        each_row(label, prediction, out, |label, prediction| {
            let logs = |number: f32, scale: f64| {
                if self.from_logits { f64::from(number) - scale } else { f64::from(clip(number / scale as f32)).ln() }
            };
            let scale = if self.from_logits {
                log_sum_exp(prediction)
            } else {
                prediction.iter().map(|&number| f64::from(number)).sum()
            };
            -label.iter().zip(prediction).map(|(&label, &number)| smooth(label) * logs(number, scale)).sum::<f64>()
        })
    }
}

/// The measure of [`SparseCategoricalCrossentropy`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SparseEntropy {
    /// Whether predictions are logits.
    pub from_logits: bool,
    /// A class whose examples are ignored.
    pub ignore_class: Option<i64>,
}

impl SparseCategoricalCrossentropy {
    setters! {
        /// Takes predictions for logits.
        from_logits: bool => measure.from_logits;
        /// Ignores the examples of this class, which need not be a class of the model.
        ignore_class: i64 => measure.ignore_class;
    }
}

impl Measure for SparseEntropy {
    const NAME: &'static str = "sparse_categorical_crossentropy";

    fn measure(&self, label: Values<'_>, prediction: Values<'_>, out: &mut Vec<f64>) -> Result<()> {
        let pair = Sparse::new(label, prediction)?;
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
                // Keras uses the logarithms as logits, so probabilities that do not sum to 1 are normalized.
                logs.iter_mut().zip(prediction).for_each(|(log, &number)| *log = clip(number).ln());
                &logs
            };
            out.push(log_sum_exp(logits) - f64::from(logits[class]));
        }
        Ok(())
    }

    fn counts(&self, label: Values<'_>, out: &mut Vec<f64>) {
        if let (Some(ignored), Ok(classes)) = (self.ignore_class, label.class_ids()) {
            out.extend(classes.iter().map(|&class| f64::from(u8::from(class != ignored))));
        }
    }
}

/// Clips a probability away from 0 and 1, as Keras does in f32. NaN stays NaN.
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
