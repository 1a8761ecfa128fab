//! What the closure of a step may return.

use phalanx_base::Result;
use phalanx_nn::burn::tensor::Tensor;

/// The loss that a closure returns: a tensor, or a `Result` with one, so that the closure can use `?`.
pub trait IntoLoss {
    /// Returns the tensor.
    ///
    /// # Errors
    /// The error that the closure returned.
    fn into_loss(self) -> Result<Tensor<1>>;
}

impl<S: IntoStep<Value = ()>> IntoLoss for S {
    fn into_loss(self) -> Result<Tensor<1>> {
        Ok(self.into_step()?.0)
    }
}

/// What the closure of a training step returns: the loss, or the loss and a value of the program's own, each of them also in a
/// `Result`, so that the closure can use `?`.
pub trait IntoStep {
    /// The program's own value.
    type Value;

    /// Returns the loss and the value.
    ///
    /// # Errors
    /// The error that the closure returned.
    fn into_step(self) -> Result<(Tensor<1>, Self::Value)>;
}

impl IntoStep for Tensor<1> {
    type Value = ();

    fn into_step(self) -> Result<(Tensor<1>, ())> {
        Ok((self, ()))
    }
}

impl<T> IntoStep for (Tensor<1>, T) {
    type Value = T;

    fn into_step(self) -> Result<(Tensor<1>, T)> {
        Ok(self)
    }
}

impl<S: IntoStep> IntoStep for Result<S> {
    type Value = S::Value;

    fn into_step(self) -> Result<(Tensor<1>, S::Value)> {
        self?.into_step()
    }
}
