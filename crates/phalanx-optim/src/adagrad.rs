//! Adagrad.

use crate::Slot;
use crate::kernel::Kernel;
use crate::rule::Kernels;
use crate::setting::{Range, Setting, Settings};

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
}

impl Adagrad {
    /// Adagrad with this rate, an initial accumulator of 0.1 and an epsilon of 1e-7.
    #[must_use]
    pub fn new(learning_rate: f32) -> Self {
        Self { learning_rate, initial_accumulator_value: 0.1, epsilon: 1e-7 }
    }

    /// What the accumulator is before the first update: 0 or above.
    #[must_use]
    pub fn initial_accumulator_value(self, initial_accumulator_value: f32) -> Self {
        Self { initial_accumulator_value, ..self }
    }

    /// Keeps the division away from zero.
    #[must_use]
    pub fn epsilon(self, epsilon: f32) -> Self {
        Self { epsilon, ..self }
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

impl Settings for Adagrad {
    const NAME: &'static str = "adagrad";
    const COUNT: usize = 3;

    fn settings(&self) -> Vec<Setting> {
        vec![
            Setting::new("learning_rate", self.learning_rate, Range::NotNegative),
            Setting::new("initial_accumulator_value", self.initial_accumulator_value, Range::NotNegative),
            Setting::new("epsilon", self.epsilon, Range::NotNegative),
        ]
    }

    fn from_values(values: &[f32]) -> Self {
        Self { learning_rate: values[0], initial_accumulator_value: values[1], epsilon: values[2] }
    }
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
