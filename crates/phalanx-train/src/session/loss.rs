//! What the closure of a step may return.

use phalanx_base::Result;
use phalanx_nn::burn::tensor::Tensor;

/// The loss that a step's closure returns: a tensor, or a `Result` with one, so that the closure can use `?`.
pub trait IntoLoss {
    /// Returns the tensor.
    ///
    /// # Errors
    /// The error that the closure returned.
    fn into_loss(self) -> Result<Tensor<1>>;
}

impl IntoLoss for Tensor<1> {
    fn into_loss(self) -> Result<Tensor<1>> {
        Ok(self)
    }
}

impl IntoLoss for Result<Tensor<1>> {
    fn into_loss(self) -> Result<Tensor<1>> {
        self
    }
}
