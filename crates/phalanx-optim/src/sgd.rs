//! Gradient descent, with Keras' momentum.

use crate::Slot;
use crate::kernel::Kernel;
use crate::rule::Kernels;
use crate::setting::{Extras, settings};

/// Gradient descent as in Keras' `SGD`: `value -= rate · g`, or with momentum
/// `momentum = m · momentum − rate · g; value += momentum` (TensorFlow's `ResourceApplyKerasMomentum`).
///
/// The rate is inside the momentum slot here and outside it in [`Momentum`](crate::Momentum): the two differ once
/// the rate changes during a run.
///
/// ```
/// use phalanx_optim::{Optimizer, Sgd};
/// let plain: Optimizer = Sgd::new(0.5).into();
/// assert_eq!(plain.slot_count(), 0);
/// let nesterov: Optimizer = Sgd::new(0.5).momentum(0.9).nesterov(true).into();
/// assert_eq!(nesterov.slots()[0].name, "momentum");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sgd {
    pub(crate) learning_rate: f32,
    momentum: f32,
    nesterov: bool,
    pub(crate) extras: Extras,
}

impl Sgd {
    /// Plain gradient descent.
    #[must_use]
    pub fn new(learning_rate: f32) -> Self {
        Self { learning_rate, momentum: 0.0, nesterov: false, extras: Extras::default() }
    }

    pub(crate) fn slots(&self) -> &'static [Slot] {
        if self.momentum == 0.0 { &[] } else { const { &[Slot::new("momentum")] } }
    }

    pub(crate) fn at_step(&self, _step: u64) -> Kernels {
        let Self { learning_rate, momentum, nesterov, .. } = *self;
        match (momentum == 0.0, nesterov) {
            (true, _) => Kernels::Sgd(Plain { learning_rate }),
            (false, false) => Kernels::SgdMomentum(WithMomentum { learning_rate, momentum }),
            (false, true) => Kernels::SgdNesterov(WithMomentum { learning_rate, momentum }),
        }
    }
}

/// Keras' defaults.
impl Default for Sgd {
    fn default() -> Self {
        Self::new(0.01)
    }
}

settings! {
    Sgd, "sgd", 1.0;
    learning_rate: NotNegative, momentum: Fraction, nesterov: Flag;
    /// Keeps this fraction of the last step, from 0 to 1. With 0 (the default) there is no momentum and no slot.
    momentum: f32,
    /// Uses Nesterov momentum; without momentum it changes nothing.
    nesterov: bool
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Plain {
    learning_rate: f32,
}

impl Kernel<0> for Plain {
    #[inline(always)]
    fn element(self, value: f32, _: &mut [f32; 0], grad: f32) -> f32 {
        value - grad * self.learning_rate
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct WithMomentum<const NESTEROV: bool> {
    learning_rate: f32,
    momentum: f32,
}

impl<const NESTEROV: bool> Kernel<1> for WithMomentum<NESTEROV> {
    #[inline(always)]
    fn element(self, value: f32, [kept]: &mut [f32; 1], grad: f32) -> f32 {
        *kept = *kept * self.momentum - grad * self.learning_rate;
        if NESTEROV { value + (*kept * self.momentum - grad * self.learning_rate) } else { value + *kept }
    }
}
