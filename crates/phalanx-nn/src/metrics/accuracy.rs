//! Accuracies: how often a prediction is right.

use phalanx_base::{Code, Error, Result};

use super::measured::{each_row, measures};
use super::{MeanMetric, Measure, Pair, Sparse, Values};

measures! {
    /// How often label and prediction are equal.
    Accuracy = Equal, "accuracy", |label, prediction, out| {
        let pair = Pair::new(label, prediction)?;
        if let (Values::Ids(label), Values::Ids(prediction)) = (label, prediction) {
            // Different large ids may be equal as f32.
            out.extend(label.iter().zip(prediction).map(|(label, prediction)| hit(label == prediction)));
        } else {
            out.extend(pair.elements().map(|(label, prediction)| hit(label == prediction)));
        }
        Ok(())
    };
    /// How often the largest prediction has the index of the one in the one-hot label.
    CategoricalAccuracy = CategoricalMatch, "categorical_accuracy", |label, prediction, out| {
        each_row(label, prediction, out, |label, prediction| hit(argmax(label) == argmax(prediction)))
    };
    /// How often the largest prediction is the class of the label.
    SparseCategoricalAccuracy = SparseCategoricalMatch, "sparse_categorical_accuracy", |label, prediction, out| {
        let pair = Sparse::new(label, prediction)?;
        out.extend(pair.rows().map(|(class, prediction)| hit(usize::try_from(class) == Ok(argmax(prediction)))));
        Ok(())
    };
}

/// How often a prediction above the threshold (0.5) has a label of 1, and one below it a label of 0.
pub type BinaryAccuracy = MeanMetric<BinaryMatch>;

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
    setters! {
        /// Sets the threshold above which a prediction means 1.
        threshold: f32 => measure.threshold;
    }
}

impl Measure for BinaryMatch {
    const NAME: &'static str = "binary_accuracy";

    fn measure(&self, label: Values<'_>, prediction: Values<'_>, out: &mut Vec<f64>) -> Result<()> {
        let pair = Pair::new(label, prediction)?;
        let rounded = |prediction: f32| f32::from(u8::from(prediction > self.threshold));
        out.extend(pair.elements().map(|(label, prediction)| hit(label == rounded(prediction))));
        Ok(())
    }
}

/// Declares a metric whose measure has the setting `k`.
macro_rules! top_k {
    ($(#[$doc:meta])* $metric:ident = $measure:ident, $name:literal, |$k:ident, $label:ident, $prediction:ident, $out:ident| $values:expr) => {
        $(#[$doc])*
        pub type $metric = MeanMetric<$measure>;

        #[doc = concat!("The measure of [`", stringify!($metric), "`].")]
        #[derive(Clone, Copy, Debug)]
        pub struct $measure {
            k: usize,
        }

        impl Default for $measure {
            fn default() -> Self {
                Self { k: 5 }
            }
        }

        impl $metric {
            /// Sets the number of largest predictions to consider.
            ///
            /// # Errors
            /// If it is 0.
            pub fn k(mut self, k: usize) -> Result<Self> {
                self.measure.k = check_k(k)?;
                Ok(self)
            }
        }

        impl Measure for $measure {
            const NAME: &'static str = $name;

            fn measure(&self, $label: Values<'_>, $prediction: Values<'_>, $out: &mut Vec<f64>) -> Result<()> {
                let $k = self.k;
                $values
            }
        }
    };
}

top_k! {
    /// How often the class of the one-hot label is among the `k` (5) largest predictions.
    TopKCategoricalAccuracy = TopKMatch, "top_k_categorical_accuracy", |k, label, prediction, out| {
        each_row(label, prediction, out, |label, prediction| hit(in_top_k(prediction, argmax(label), k)))
    }
}

top_k! {
    /// How often the class of the label is among the `k` (5) largest predictions.
    SparseTopKCategoricalAccuracy = SparseTopKMatch, "sparse_top_k_categorical_accuracy", |k, label, prediction, out| {
        let pair = Sparse::new(label, prediction)?;
        let class = |class: i64| usize::try_from(class).unwrap_or(usize::MAX);
        out.extend(pair.rows().map(|(label, prediction)| hit(in_top_k(prediction, class(label), k))));
        Ok(())
    }
}

fn hit(right: bool) -> f64 {
    f64::from(u8::from(right))
}

/// Returns the index of the largest number, the first of equal ones. For a row of NaN that is 0.
pub(crate) fn argmax(row: &[f32]) -> usize {
    let mut best = 0;
    for (index, number) in row.iter().enumerate() {
        if *number > row[best] {
            best = index;
        }
    }
    best
}

/// Returns whether fewer than `k` classes are more probable than this one. As in TensorFlow, ties are in; a row with a
/// number that is not finite, and a class that does not exist, are out.
fn in_top_k(prediction: &[f32], class: usize, k: usize) -> bool {
    let Some(&mine) = prediction.get(class) else { return false };
    prediction.iter().all(|number| number.is_finite()) && prediction.iter().filter(|&&other| other > mine).count() < k
}

/// Checks the `k` of a top-k metric.
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
    fn a_class_that_does_not_exist_is_never_right() {
        let mut accuracy = SparseCategoricalAccuracy::new();
        accuracy.update(Values::ids(&[-1, 2, 1]), Values::rows(&[0.2, 0.8, 0.2, 0.8, 0.2, 0.8], 2), None).unwrap();
        assert!((accuracy.result() - 1.0 / 3.0).abs() < 1e-15);
    }
}
