//! Adagrad.

use crate::Slot;
use crate::kernel::Kernel;
use crate::rule::Kernels;
use crate::setting::{Extras, settings};

/// Adagrad (`ResourceApplyAdagradV2`): `accumulator += g²; value -= rate · g / (√accumulator + epsilon)`.
///
/// TensorFlow 1's `AdagradOptimizer` is this one with an epsilon of 0.
///
/// ```
/// use phalanx_optim::{Adagrad, Optimizer};
/// let optimizer: Optimizer = Adagrad::new(0.05).initial_accumulator_value(0.5).epsilon(1e-6).into();
/// assert_eq!(optimizer.slots()[0].name, "accumulator");
/// assert_eq!(optimizer.slot_init(0), 0.5);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adagrad {
    pub(crate) learning_rate: f32,
    pub(crate) initial_accumulator_value: f32,
    epsilon: f32,
    pub(crate) extras: Extras,
}

impl Adagrad {
    /// Adagrad with this rate, an initial accumulator of 0.1 and an epsilon of 1e-7.
    #[must_use]
    pub fn new(learning_rate: f32) -> Self {
        Self { learning_rate, initial_accumulator_value: 0.1, epsilon: 1e-7, extras: Extras::default() }
    }

    pub(crate) fn slots(&self) -> &'static [Slot] {
        const { &[Slot::new("accumulator")] }
    }

    pub(crate) fn at_step(&self, _step: u64) -> Kernels {
        Kernels::Adagrad(Step { learning_rate: self.learning_rate, epsilon: self.epsilon })
    }
}

/// Keras' defaults.
impl Default for Adagrad {
    fn default() -> Self {
        Self::new(0.001)
    }
}

settings! {
    Adagrad, "adagrad", 3.0;
    learning_rate: NotNegative, initial_accumulator_value: NotNegative, epsilon: NotNegative;
    /// Sets the accumulator before the first update: 0 or above.
    initial_accumulator_value: f32,
    /// Keeps the division away from zero.
    epsilon: f32
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    learning_rate: f32,
    epsilon: f32,
}

impl Kernel<1> for Step {
    #[inline(always)]
    fn element(self, value: f32, [accumulator]: &mut [f32; 1], grad: f32) -> f32 {
        *accumulator += grad * grad;
        value - grad * self.learning_rate / (accumulator.sqrt() + self.epsilon)
    }
}
