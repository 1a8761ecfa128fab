//! Hooks that run during a training.

use phalanx_base::Result;
use phalanx_train::Step;

/// Whether training continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Control {
    /// Continue.
    Continue,
    /// Stop: the whole job on the chief, only itself on a worker.
    Stop,
}

/// TensorFlow's `SessionRunHook`. Not called if there is nothing left to train.
///
/// ```
/// use phalanx_estimator::{Control, Hook};
/// use phalanx_train::Step;
///
/// struct GoodEnough;
///
/// impl Hook for GoodEnough {
///     fn after_step(&mut self, step: &Step) -> phalanx_base::Result<Control> {
///         Ok(if step.loss < 0.01 { Control::Stop } else { Control::Continue })
///     }
/// }
/// ```
pub trait Hook: Send {
    /// Called before the first step; `global_step` counts the steps of earlier runs.
    ///
    /// # Errors
    /// An error ends the training.
    fn begin(&mut self, global_step: u64) -> Result<()> {
        let _ = global_step;
        Ok(())
    }

    /// Called after every step of this task.
    ///
    /// # Errors
    /// An error ends the training.
    fn after_step(&mut self, step: &Step) -> Result<Control>;

    /// Called after the last step, unless training failed.
    ///
    /// # Errors
    /// The training returns the error.
    fn end(&mut self, global_step: u64) -> Result<()> {
        let _ = global_step;
        Ok(())
    }
}
