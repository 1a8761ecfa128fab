//! What the closure of an evaluation may return.

use crate::HostTensor;
use phalanx_base::Result;
use phalanx_nn::burn::tensor::Tensor;

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
