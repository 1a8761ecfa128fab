//! Momentum as TensorFlow 1 has it.

use crate::Slot;
use crate::kernel::Kernel;
use crate::rule::Kernels;
use crate::setting::{Setting, Settings, with_momentum};

/// TensorFlow 1's `MomentumOptimizer` (`ResourceApplyMomentum`): `momentum = m · momentum + g; value -= rate · momentum`.
///
/// Use it to go on from a TensorFlow 1 checkpoint; otherwise [`Sgd::momentum`](crate::Sgd::momentum) is what Keras'
/// users mean.
///
/// ```
/// use phalanx_optim::{Momentum, Optimizer};
/// let optimizer: Optimizer = Momentum::new(0.1, 0.5).into();
/// let mut row = [1.0, 0.0]; // a value and its momentum
/// optimizer.at_step(1).apply(&mut row, &[2.0])?;
/// assert_eq!(row, [0.8, 2.0]);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Momentum {
    pub(crate) learning_rate: f32,
    momentum: f32,
    nesterov: bool,
}

impl Momentum {
    /// Momentum with this rate and this share of the past, from 0 to 1.
    #[must_use]
    pub fn new(learning_rate: f32, momentum: f32) -> Self {
        Self { learning_rate, momentum, nesterov: false }
    }

    /// Looks ahead as Nesterov does.
    #[must_use]
    pub fn nesterov(self, nesterov: bool) -> Self {
        Self { nesterov, ..self }
    }

    pub(crate) fn slots(&self) -> &'static [Slot] {
        const { &[Slot::new("momentum")] }
    }

    pub(crate) fn at_step(&self, _step: u64) -> Kernels {
        let Self { learning_rate, momentum, nesterov } = *self;
        if nesterov {
            Kernels::Nesterov(Step { learning_rate, momentum })
        } else {
            Kernels::Momentum(Step { learning_rate, momentum })
        }
    }
}

impl Settings for Momentum {
    const NAME: &'static str = "momentum";
    const COUNT: usize = 3;

    fn settings(&self) -> Vec<Setting> {
        with_momentum(self.learning_rate, self.momentum, self.nesterov)
    }

    fn from_values(values: &[f32]) -> Self {
        Self { learning_rate: values[0], momentum: values[1], nesterov: values[2] != 0.0 }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Step<const NESTEROV: bool> {
    learning_rate: f32,
    momentum: f32,
}

impl<const NESTEROV: bool> Kernel<1> for Step<NESTEROV> {
    #[inline(always)]
    fn element(self, value: f32, [kept]: &mut [f32; 1], grad: f32) -> f32 {
        *kept = *kept * self.momentum + grad;
        if NESTEROV {
            value - (grad * self.learning_rate + *kept * self.momentum * self.learning_rate)
        } else {
            value - *kept * self.learning_rate
        }
    }
}
