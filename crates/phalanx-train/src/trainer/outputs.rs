//! What the closures of a trainer may return.

use crate::HostTensor;
use phalanx_base::Result;
use phalanx_nn::burn::tensor::Tensor;

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

/// What the closure of an evaluation returns: predictions, the examples first, or a `Result` with them.
pub trait IntoPredictions {
    /// Returns the numbers.
    ///
    /// # Errors
    /// The error that the closure returned.
    fn into_predictions(self) -> Result<HostTensor>;
}

impl<const D: usize> IntoPredictions for Tensor<D> {
    fn into_predictions(self) -> Result<HostTensor> {
        Ok(self.into())
    }
}

impl<P: IntoPredictions> IntoPredictions for Result<P> {
    fn into_predictions(self) -> Result<HostTensor> {
        self?.into_predictions()
    }
}
