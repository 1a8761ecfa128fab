//! Hooks that run during a training.

use phalanx_base::{Code, Error, Result, Shape};
use phalanx_train::Step;

/// Whether training continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Control {
    /// Continue.
    Continue,
    /// Stop: the whole job on the chief, only itself on a worker. Where trainers step together, the job ends.
    Stop,
}

/// Fetches variables from the servers.
pub(crate) type FetchVariables<'a> = &'a mut dyn FnMut() -> Result<Vec<(String, Shape, Vec<f32>)>>;

/// What a hook can see before a step.
pub struct HookContext<'a> {
    pub(crate) global_step: u64,
    pub(crate) fetch: FetchVariables<'a>,
}

impl HookContext<'_> {
    /// Returns the number of committed steps of all trainers, earlier runs and this task's last step included.
    #[must_use]
    pub fn global_step(&self) -> u64 {
        self.global_step
    }

    /// Fetches all dense variables as they are now, with this task's last step. This costs a round trip.
    ///
    /// # Errors
    /// Fails if a server does not answer.
    pub fn variables(&mut self) -> Result<Vec<(String, Shape, Vec<f32>)>> {
        (self.fetch)()
    }

    /// Fetches the values of one variable.
    ///
    /// # Errors
    /// Fails if there is no such variable, or a server does not answer.
    pub fn variable(&mut self, name: &str) -> Result<Vec<f32>> {
        let found = self.variables()?.into_iter().find(|(known, _, _)| known == name);
        found
            .map(|(_, _, values)| values)
            .ok_or_else(|| Error::new(Code::NoSuchVariable, format!("the model has no variable {name:?}")).at("a hook"))
    }
}

/// TensorFlow's `SessionRunHook`. Not called if there is nothing left to train.
///
/// ```
/// use phalanx_estimator::{Control, Hook, HookContext};
/// use phalanx_train::Step;
///
/// struct GoodEnough;
///
/// impl Hook for GoodEnough {
///     fn before_step(&mut self, context: &mut HookContext<'_>) -> phalanx_base::Result<()> {
///         if context.global_step().is_multiple_of(1000) {
///             assert!(context.variable("bias")?[0].abs() < 100.0);
///         }
///         Ok(())
///     }
///
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

    /// Called before every step of this task, with access to the variables.
    ///
    /// # Errors
    /// An error ends the training.
    fn before_step(&mut self, context: &mut HookContext<'_>) -> Result<()> {
        let _ = context;
        Ok(())
    }

    /// Called after every step of this task.
    ///
    /// # Errors
    /// An error ends the training.
    fn after_step(&mut self, step: &Step) -> Result<Control> {
        let _ = step;
        Ok(Control::Continue)
    }

    /// Called after the last step, unless training failed.
    ///
    /// # Errors
    /// The training returns the error.
    fn end(&mut self, global_step: u64) -> Result<()> {
        let _ = global_step;
        Ok(())
    }
}
