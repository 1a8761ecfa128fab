//! Predictions from logits, under TensorFlow's names.

use super::{Head, HeadKind};
use phalanx_base::Result;
use phalanx_data::{Batch, Column, Strings};
use phalanx_nn::burn::tensor::{Tensor, TensorData};
use phalanx_nn::default_device;

impl Head {
    /// Returns the predictions of a batch: for classes `logits`, `logistic` (two classes), `probabilities`, `class_ids`,
    /// `classes`, `all_class_ids` and `all_classes`; for several labels `logits`, `probabilities` and `classes`; for a
    /// regression `predictions`, and `logits` if they are counts; for several heads theirs, as `NAME/KEY`.
    pub(crate) fn predictions(&self, logits: Vec<f32>) -> Result<Batch> {
        let width = self.logits_dimension();
        if let Some(own) = &self.own_predictions {
            let rows = logits.len() / width;
            return (own.0)(Tensor::from_data(TensorData::new(logits, [rows, width]), &default_device()));
        }
        let rows = |numbers: Vec<f32>, width: usize| Column::f32(numbers).with_row_shape([width]);
        let (pairs, classes) = match self.kind {
            HeadKind::Regression(_) => return Batch::new([("predictions", rows(logits, width)?)]),
            HeadKind::Poisson(_) => {
                let expected = logits.iter().map(|logit| logit.exp()).collect();
                return Batch::new([("predictions", rows(expected, width)?), ("logits", rows(logits, width)?)]);
            }
            HeadKind::MultiLabel(classes) => {
                let probabilities = logits.iter().map(|&logit| sigmoid(logit)).collect();
                let examples = logits.len() / width;
                let all = (0..examples).flat_map(|_| 0..classes as i64).map(|id| self.word(id)).collect::<Strings>();
                return Batch::new([
                    ("logits", rows(logits, width)?),
                    ("probabilities", rows(probabilities, width)?),
                    ("classes", Column::bytes(all).with_row_shape([classes])?),
                ]);
            }
            HeadKind::Own(_) => return Batch::new([("logits", rows(logits, width)?)]),
            HeadKind::Several => {
                let mut columns = Vec::new();
                for (part, range) in self.ranges() {
                    let own = logits.chunks_exact(width).flat_map(|row| row[range.clone()].iter().copied()).collect();
                    let own = part.head.predictions(own)?;
                    columns.extend(own.iter().map(|(key, column)| (format!("{}/{key}", part.name), column.clone())));
                }
                return Batch::new(columns);
            }
            // Two classes are one logit beside a 0.
            HeadKind::Binary => (logits.iter().flat_map(|&logit| [0.0, logit]).collect(), 2),
            HeadKind::MultiClass(classes) => (logits.clone(), classes),
        };
        let count = logits.len() / width;
        let ids: Vec<i64> = pairs.chunks_exact(classes).map(largest).collect();
        let all: Vec<i64> = (0..count).flat_map(|_| 0..classes as i64).collect();
        let words = |ids: &[i64]| ids.iter().map(|&id| self.word(id)).collect::<Strings>();
        let (class_words, all_words) = (words(&ids), words(&all));
        let mut columns = vec![("logits", rows(logits.clone(), width)?)];
        if self.kind == HeadKind::Binary {
            columns.push(("logistic", rows(logits.iter().map(|&logit| sigmoid(logit)).collect(), 1)?));
        }
        columns.extend([
            ("probabilities", rows(softmax(&pairs, classes), classes)?),
            ("class_ids", Column::i64(ids).with_row_shape([1])?),
            ("classes", Column::bytes(class_words).with_row_shape([1])?),
            ("all_class_ids", Column::i64(all).with_row_shape([classes])?),
            ("all_classes", Column::bytes(all_words).with_row_shape([classes])?),
        ]);
        Batch::new(columns)
    }

    /// Returns the name of a class.
    pub(crate) fn word(&self, class: i64) -> String {
        self.label_vocabulary.get(class as usize).cloned().unwrap_or_else(|| class.to_string())
    }
}

/// Returns the index of the largest number, the first of equals.
fn largest(row: &[f32]) -> i64 {
    let mut best = 0;
    for (at, value) in row.iter().enumerate() {
        if *value > row[best] {
            best = at;
        }
    }
    best as i64
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

fn softmax(logits: &[f32], width: usize) -> Vec<f32> {
    let mut out = Vec::with_capacity(logits.len());
    for row in logits.chunks_exact(width) {
        let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f32 = row.iter().map(|logit| (logit - largest).exp()).sum();
        out.extend(row.iter().map(|logit| (logit - largest).exp() / sum));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_classes_are_one_logit_beside_a_zero() {
        let head = Head::classes(2).label_vocabulary(["no", "yes"]);
        let seen = head.predictions(vec![0.0, 3.0_f32.ln()]).unwrap();
        assert_eq!(seen.i64("class_ids").unwrap(), [0, 1], "a tie is class 0");
        assert_eq!(seen.bytes("classes").unwrap().get(1), b"yes");
        assert!((seen.f32("probabilities").unwrap()[3] - 0.75).abs() < 1e-6);
        assert!((seen.f32("logistic").unwrap()[1] - 0.75).abs() < 1e-6);
        assert_eq!(seen.i64("all_class_ids").unwrap(), [0, 1, 0, 1]);
    }

    #[test]
    fn a_regression_predicts_its_logits() {
        let seen = Head::regression(2).predictions(vec![1.0, 2.0, 3.0, 4.0]).unwrap();
        assert_eq!((seen.rows(), seen.f32("predictions").unwrap()), (2, &[1.0, 2.0, 3.0, 4.0][..]));
    }
}
