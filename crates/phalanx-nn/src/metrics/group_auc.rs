//! The AUC within groups of examples.

use phalanx_base::{Code, Error, Result};

/// GAUC: the AUC of each group of examples, such as the impressions of one user, averaged with the weights of the groups'
/// examples. Groups in which all labels are equal have no AUC and do not count. NaN if no group counts.
///
/// The AUC of a group is exact: the probability that a positive example has a higher prediction than a negative one; a tie
/// counts half. So all examples are kept until the result is computed: 24 bytes each.
///
/// ```
/// use phalanx_nn::metrics::GroupAuc;
/// let mut metric = GroupAuc::default();
/// // The first group is in the right order, half of the pairs of the second one are.
/// metric.update(&[1, 1, 2, 2, 2], &[1.0, 0.0, 1.0, 0.0, 0.0], &[0.6, 0.5, 0.3, 0.1, 0.4], None)?;
/// assert!((metric.result() - (2.0 * 1.0 + 3.0 * 0.5) / 5.0).abs() < 1e-12);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct GroupAuc {
    rows: Vec<Row>,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    group: u64,
    prediction: f32,
    label: f32,
    weight: f32,
}

impl GroupAuc {
    /// Adds a batch: the group, label (0 to 1) and prediction of each example, and its weight.
    ///
    /// # Errors
    /// If the lengths differ.
    pub fn update(
        &mut self,
        groups: &[u64],
        labels: &[f32],
        predictions: &[f32],
        weights: Option<&[f32]>,
    ) -> Result<()> {
        let count = groups.len();
        if labels.len() != count || predictions.len() != count || weights.is_some_and(|all| all.len() != count) {
            let what = format!("{count} groups, {} labels and {} predictions", labels.len(), predictions.len());
            return Err(Error::new(Code::ShapeMismatch, what).help("give one of each, and one weight, per example"));
        }
        self.rows.reserve(count);
        for (at, &group) in groups.iter().enumerate() {
            let weight = weights.map_or(1.0, |weights| weights[at]);
            self.rows.push(Row { group, prediction: predictions[at], label: labels[at], weight });
        }
        Ok(())
    }

    /// Returns the value so far; 0 without examples.
    #[must_use]
    pub fn result(&self) -> f64 {
        if self.rows.is_empty() {
            return 0.0;
        }
        let mut rows = self.rows.clone();
        rows.sort_unstable_by(|a, b| a.group.cmp(&b.group).then(a.prediction.total_cmp(&b.prediction)));
        let (mut sum, mut all) = (0.0, 0.0);
        for group in rows.chunk_by(|a, b| a.group == b.group) {
            let weight: f64 = group.iter().map(|row| f64::from(row.weight)).sum();
            if let Some(auc) = auc(group) {
                (sum, all) = (sum + weight * auc, all + weight);
            }
        }
        sum / all
    }

    /// Adds the examples of another one.
    pub fn merge(&mut self, other: &Self) {
        self.rows.extend_from_slice(&other.rows);
    }
}

/// Returns the AUC of rows that are sorted by prediction, or `None` if all labels are equal.
fn auc(rows: &[Row]) -> Option<f64> {
    let (mut below, mut pairs, mut positives) = (0.0, 0.0, 0.0);
    for tied in rows.chunk_by(|a, b| a.prediction == b.prediction) {
        let positive: f64 = tied.iter().map(|row| f64::from(row.weight) * f64::from(row.label)).sum();
        let negative: f64 = tied.iter().map(|row| f64::from(row.weight) * (1.0 - f64::from(row.label))).sum();
        pairs += positive * (below + 0.5 * negative);
        below += negative;
        positives += positive;
    }
    (positives > 0.0 && below > 0.0).then(|| pairs / (positives * below))
}
