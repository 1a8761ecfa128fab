//! True and false positives and negatives at every threshold.
//!
//! The state has two counts per bucket between thresholds instead of four per threshold: an update changes one number, and
//! merging two states is exact.

use phalanx_base::{Code, Error, Result};

use super::accuracy::check_k;
use super::thresholds::Thresholds;
use super::weights::Weights;
use super::{Pair, Values};

/// Keras' value of predictions outside the top k, and its threshold for metrics with a top k only.
pub(crate) const NEVER: f32 = -1e10;

/// The four counts at one threshold.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Predicted and true.
    pub true_positives: f64,
    /// Predicted and not true.
    pub false_positives: f64,
    /// Not predicted and not true.
    pub true_negatives: f64,
    /// Not predicted and true.
    pub false_negatives: f64,
}

/// Counts predictions by bucket.
#[derive(Clone, Debug)]
pub(crate) struct Confusion {
    thresholds: Thresholds,
    top_k: Option<usize>,
    class_id: Option<usize>,
    /// The weight of the positives by the number of thresholds below the prediction, then of the negatives.
    buckets: Vec<f64>,
}

impl Confusion {
    pub(crate) fn new(thresholds: Thresholds) -> Self {
        let buckets = vec![0.0; 2 * (thresholds.len() + 1)];
        Self { thresholds, top_k: None, class_id: None, buckets }
    }

    /// Replaces the thresholds and clears the counts.
    pub(crate) fn with_thresholds(self, thresholds: Thresholds) -> Self {
        Self { top_k: self.top_k, class_id: self.class_id, ..Self::new(thresholds) }
    }

    pub(crate) fn with_top_k(self, k: usize) -> Result<Self> {
        Ok(Self { top_k: Some(check_k(k)?), ..self })
    }

    pub(crate) fn with_class_id(self, class: usize) -> Self {
        Self { class_id: Some(class), ..self }
    }

    pub(crate) fn fresh(&self) -> Self {
        self.clone().with_thresholds(self.thresholds.clone())
    }

    pub(crate) fn state(&self) -> &[f64] {
        &self.buckets
    }

    pub(crate) fn state_mut(&mut self) -> &mut [f64] {
        &mut self.buckets
    }

    /// Adds a batch.
    pub(crate) fn update(&mut self, label: Values<'_>, prediction: Values<'_>, weights: Option<&[f32]>) -> Result<()> {
        let mut pair = Pair::new(label, prediction)?;
        self.check_width(pair.width)?;
        if let Some(k) = self.top_k {
            let width = pair.width;
            pair.prediction.to_mut().chunks_exact_mut(width).for_each(|row| keep_top(row, k));
        }
        let examples = pair.label.len() / pair.width;
        match self.class_id {
            None => {
                let weights = Weights::new(weights, examples, pair.width)?;
                for (index, (label, prediction)) in pair.elements().enumerate() {
                    self.count(label, prediction, weights.of(index));
                }
            }
            Some(class) => {
                let weights = Weights::new(weights, examples, 1)?;
                for (row, (label, prediction)) in pair.rows().enumerate() {
                    self.count(label[class], prediction[class], weights.of(row));
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn count(&mut self, label: f32, prediction: f32, weight: f64) {
        let bucket = self.thresholds.below(prediction);
        let negative = if label == 0.0 { self.thresholds.len() + 1 } else { 0 };
        self.buckets[negative + bucket] += weight;
    }

    fn check_width(&self, width: usize) -> Result<()> {
        let refuse = |what| Err(Error::new(Code::ShapeMismatch, what).help("give a smaller number, or a wider output"));
        match (self.top_k, self.class_id) {
            (Some(k), _) if k > width => refuse(format!("the top {k} of {width} predictions")),
            (_, Some(class)) if class >= width => refuse(format!("class {class} of {width} classes")),
            _ => Ok(()),
        }
    }

    /// The counts at every threshold, in increasing order of thresholds.
    pub(crate) fn counts(&self) -> Vec<Counts> {
        let (positives, negatives) = self.buckets.split_at(self.thresholds.len() + 1);
        let up_to = |buckets: &[f64]| -> Vec<f64> {
            let sums = buckets.iter().scan(0.0, |sum, bucket| {
                *sum += bucket;
                Some(*sum)
            });
            sums.take(self.thresholds.len()).collect()
        };
        // Summed from above instead of subtracted from the total, so that an empty end of the curve is exactly zero.
        let above = |buckets: &[f64]| -> Vec<f64> {
            let reversed: Vec<f64> = buckets.iter().rev().copied().collect();
            up_to(&reversed).into_iter().rev().collect()
        };
        let ((tp, fp), (tn, missed)) = ((above(positives), above(negatives)), (up_to(negatives), up_to(positives)));
        (0..self.thresholds.len())
            .map(|index| Counts {
                true_positives: tp[index],
                false_positives: fp[index],
                true_negatives: tn[index],
                false_negatives: missed[index],
            })
            .collect()
    }

    /// The counts at the thresholds in the order in which they were given.
    pub(crate) fn counts_as_given(&self) -> Vec<Counts> {
        let counts = self.counts();
        self.thresholds.places().iter().map(|&place| counts[place]).collect()
    }
}

/// Keeps the `k` largest of a row, preferring the first of equals, and replaces the others by [`NEVER`].
fn keep_top(row: &mut [f32], k: usize) {
    let mut order: Vec<usize> = (0..row.len()).collect();
    order.sort_by(|&a, &b| row[b].total_cmp(&row[a]));
    for &index in &order[k.min(row.len())..] {
        row[index] = NEVER;
    }
}

/// The methods of [`Metric`](super::Metric) for a type with the fields `name` and `confusion`.
macro_rules! by_confusion {
    () => {
        fn name(&self) -> &str {
            &self.name
        }

        fn state(&self) -> &[f64] {
            self.confusion.state()
        }

        fn state_mut(&mut self) -> &mut [f64] {
            self.confusion.state_mut()
        }

        fn fresh(&self) -> Box<dyn Metric> {
            Box::new(Self { confusion: self.confusion.fresh(), ..self.clone() })
        }
    };
    (update) => {
        fn update(&mut self, label: Values<'_>, prediction: Values<'_>, weights: Option<&[f32]>) -> Result<()> {
            let Self { name, confusion, .. } = self;
            confusion.update(label, prediction, weights).map_err(|error| error.at(format!("metric `{name}`")))
        }
    };
}
pub(super) use by_confusion;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_keeps_the_first_of_equals() {
        let mut row = [0.2, 0.7, 0.7, 0.7];
        keep_top(&mut row, 2);
        assert_eq!(row, [NEVER, 0.7, 0.7, NEVER]);
    }

    #[test]
    fn counts_add_up_at_every_threshold() {
        let mut confusion = Confusion::new(Thresholds::given(&[0.3, 0.9, 0.3]).unwrap());
        let label = Values::column(&[1.0, 1.0, 0.0, 0.0]);
        confusion.update(label, Values::column(&[0.95, 0.3, 0.5, 0.1]), Some(&[1.0, 2.0, 4.0, 8.0])).unwrap();
        let at = |tp, fp, tn, missed| Counts {
            true_positives: tp,
            false_positives: fp,
            true_negatives: tn,
            false_negatives: missed,
        };
        let low = at(1.0, 4.0, 8.0, 2.0);
        assert_eq!(confusion.counts_as_given(), [low, at(1.0, 0.0, 12.0, 2.0), low]);
    }

    #[test]
    fn a_class_or_a_top_wider_than_the_row_is_refused() {
        let wide = || (Values::rows(&[0.0, 1.0], 2), Values::rows(&[0.1, 0.9], 2));
        let mut top = Confusion::new(Thresholds::one(NEVER)).with_top_k(3).unwrap();
        assert_eq!(top.update(wide().0, wide().1, None).unwrap_err().what(), "the top 3 of 2 predictions");
        let mut class = Confusion::new(Thresholds::one(0.5)).with_class_id(2);
        assert_eq!(class.update(wide().0, wide().1, None).unwrap_err().what(), "class 2 of 2 classes");
    }
}
