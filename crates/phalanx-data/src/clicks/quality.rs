//! The best that any model can reach on a click log.

use super::generator::Generator;
use super::math::ln;

/// The metrics of the teacher's own probabilities, which no model can beat except by chance.
///
/// Taken from 200,000 rows whose labels are not drawn but counted with their probabilities, so that it does not depend
/// on the seed by more than a few parts in a thousand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttainableMetrics {
    /// The area under the ROC curve.
    pub auc: f64,
    /// The mean log loss, in nats.
    pub log_loss: f64,
    /// The share of positives.
    pub positives: f64,
}

const ROWS: u64 = 200_000;
const BLOCK: u64 = 4096;

pub(super) fn best(generator: &Generator) -> AttainableMetrics {
    let mut probabilities = Vec::with_capacity(ROWS as usize);
    for first in (0..ROWS).step_by(BLOCK as usize) {
        let count = BLOCK.min(ROWS - first) as usize;
        probabilities.extend(generator.rows(first, count).probabilities);
    }
    probabilities.sort_by(f64::total_cmp);
    expected(&probabilities)
}

/// The expected figures of labels that are drawn with these sorted probabilities.
fn expected(sorted: &[f64]) -> AttainableMetrics {
    let positives: f64 = sorted.iter().sum();
    let negatives = sorted.len() as f64 - positives;
    let (mut below, mut pairs, mut loss) = (0.0, 0.0, 0.0);
    for &p in sorted {
        // A row is a positive with p; it is above all negatives before it. Ties do not happen.
        pairs += p * below;
        below += 1.0 - p;
        let inside = p.clamp(1e-12, 1.0 - 1e-12);
        loss -= p * ln(inside) + (1.0 - p) * ln(1.0 - inside);
    }
    let rows = sorted.len() as f64;
    AttainableMetrics { auc: pairs / (positives * negatives), log_loss: loss / rows, positives: positives / rows }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_cases() {
        let perfect = expected(&[0.0, 0.0, 1.0, 1.0]);
        assert!((perfect.auc - 1.0).abs() < 1e-9 && perfect.log_loss < 1e-9);
        // Two thirds positive, uniform: the AUC of a score that is its own probability.
        let uniform: Vec<f64> = (0..10_000).map(|i| (f64::from(i) + 0.5) / 10_000.0).collect();
        let figures = expected(&uniform);
        assert!((figures.auc - 5.0 / 6.0).abs() < 1e-3, "{figures:?}");
        assert!((figures.log_loss - 0.5).abs() < 1e-3 && (figures.positives - 0.5).abs() < 1e-9, "{figures:?}");
    }
}
