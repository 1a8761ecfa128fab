//! Losses to train models with.

mod function;
mod graph;
mod labels;
mod ranking;

pub use crate::metrics::{Loss, Reduction, compute_average_loss};
pub use function::{LossFunction, check_each};
pub use labels::Labels;
pub use ranking::{InBatchNegatives, bpr, pairwise_hinge, sigmoid_cross_entropy};

use burn::tensor::activation::log_softmax;
use burn::tensor::{Int, Tensor};

/// Returns the mean softmax cross-entropy of a batch: `logits` of shape `[batch, classes]` and one class number per example.
/// This is the mean of TensorFlow's `sparse_softmax_cross_entropy_with_logits`.
#[must_use]
pub fn sparse_softmax_cross_entropy(logits: Tensor<2>, labels: Tensor<1, Int>) -> Tensor<1> {
    let labels = labels.unsqueeze_dim::<2>(1);
    log_softmax(logits, 1).gather(1, labels).mean().neg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certain_prediction_has_no_loss_and_a_uniform_one_the_log_of_the_classes() {
        let device = crate::default_device();
        let logits = Tensor::<2>::from_data([[50.0, 0.0], [0.0, 0.0]], &device);
        let labels = Tensor::<1, Int>::from_data([0, 1], &device);
        let loss = crate::scalar(sparse_softmax_cross_entropy(logits, labels)).unwrap();
        assert!((loss - 0.5 * 2.0_f32.ln()).abs() < 1e-6, "{loss}");
    }
}
