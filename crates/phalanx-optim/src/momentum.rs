//! Momentum as in TensorFlow 1.

use crate::Slot;
use crate::kernel::Kernel;
use crate::rule::Kernels;
use crate::setting::{Extras, settings};

/// TensorFlow 1's `MomentumOptimizer` (`ResourceApplyMomentum`): `momentum = m · momentum + g; value -= rate · momentum`.
///
/// Use it to continue from a TensorFlow 1 checkpoint; [`Sgd::momentum`](crate::Sgd::momentum) is the momentum of Keras.
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
    pub(crate) extras: Extras,
}

impl Momentum {
    /// Creates momentum with this rate and this fraction of the past, from 0 to 1.
    #[must_use]
    pub fn new(learning_rate: f32, momentum: f32) -> Self {
        Self { learning_rate, momentum, nesterov: false, extras: Extras::default() }
    }

    pub(crate) fn slots(&self) -> &'static [Slot] {
        const { &[Slot::new("momentum")] }
    }

    pub(crate) fn at_step(&self, _step: u64) -> Kernels {
        let Self { learning_rate, momentum, nesterov, .. } = *self;
        if nesterov {
            Kernels::Nesterov(Step { learning_rate, momentum })
        } else {
            Kernels::Momentum(Step { learning_rate, momentum })
        }
    }
}

settings! {
    Momentum, "momentum", 2.0;
    learning_rate: NotNegative, momentum: Fraction, nesterov: Flag;
    /// Uses Nesterov momentum.
    nesterov: bool
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
