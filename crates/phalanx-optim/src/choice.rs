//! An optimizer as a value or by Keras' name.

use crate::Optimizer;
use phalanx_base::Result;

/// An optimizer, as a value or by Keras' name with Keras' default learning rate.
///
/// ```
/// use phalanx_optim::{Adam, OptimizerChoice};
/// let named: OptimizerChoice = "adam".into();
/// assert_eq!(named.resolve()?, Adam::new(1e-3).into());
/// assert!(OptimizerChoice::from("adma").resolve().is_err());
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct OptimizerChoice(Result<Optimizer>);

impl OptimizerChoice {
    /// Returns the optimizer.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn resolve(self) -> Result<Optimizer> {
        self.0
    }
}

impl From<&str> for OptimizerChoice {
    fn from(name: &str) -> Self {
        let rate = if matches!(name.to_ascii_lowercase().as_str(), "sgd" | "momentum") { 0.01 } else { 0.001 };
        Self(Optimizer::parse(name, rate))
    }
}

impl<O: Into<Optimizer>> From<O> for OptimizerChoice {
    fn from(optimizer: O) -> Self {
        Self(Ok(optimizer.into()))
    }
}
