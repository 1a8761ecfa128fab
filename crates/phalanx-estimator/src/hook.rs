//! What can be done around a training.

use phalanx_base::Result;
use phalanx_train::Step;

/// Whether training goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Control {
    /// It does.
    Continue,
    /// It ends: on the chief for the whole job, on a worker for that worker.
    Stop,
}

/// Called around a training: TensorFlow's `SessionRunHook`. A task that has nothing to train calls none of it.
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
    /// Before the first step; `global_step` steps have been made by former runs.
    ///
    /// # Errors
    /// What ends the training.
    fn begin(&mut self, global_step: u64) -> Result<()> {
        let _ = global_step;
        Ok(())
    }

    /// After every step of this task.
    ///
    /// # Errors
    /// What ends the training.
    fn after_step(&mut self, step: &Step) -> Result<Control>;

    /// After the last step; not called when training failed.
    ///
    /// # Errors
    /// What the training answers.
    fn end(&mut self, global_step: u64) -> Result<()> {
        let _ = global_step;
        Ok(())
    }
}
