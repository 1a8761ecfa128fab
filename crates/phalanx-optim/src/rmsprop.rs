//! RMSprop: plain, centered, with momentum, and both.

use crate::Slot;
use crate::kernel::Kernel;
use crate::rule::Kernels;
use crate::setting::{Extras, settings};

/// RMSprop as Keras' legacy optimizer computes it: `rms` is a running average of `g²`, centered it is less the square
/// of `mg`, the running average of `g`.
///
/// Keras has two forms, and so has this: without momentum `value -= rate · g / (√rms + epsilon)`; with momentum the
/// kernels `ResourceApplyRMSProp` and `ResourceApplyCenteredRMSProp`, whose epsilon is inside the root:
/// `momentum = m · momentum + rate · g / √(rms + epsilon); value -= momentum`.
///
/// Where rounding makes `rms − mg²` negative, it counts as zero here; TensorFlow takes the root and the variable is NaN.
///
/// ```
/// use phalanx_optim::{Optimizer, RmsProp};
/// let optimizer: Optimizer = RmsProp::new(0.001).rho(0.95).momentum(0.9).centered(true).into();
/// assert_eq!(optimizer.slots().iter().map(|slot| slot.name).collect::<Vec<_>>(), ["rms", "momentum", "mg"]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RmsProp {
    pub(crate) learning_rate: f32,
    rho: f32,
    momentum: f32,
    epsilon: f32,
    centered: bool,
    pub(crate) extras: Extras,
}

impl RmsProp {
    /// RMSprop with this rate, a rho of 0.9, an epsilon of 1e-7, and neither momentum nor centering.
    #[must_use]
    pub fn new(learning_rate: f32) -> Self {
        Self { learning_rate, rho: 0.9, momentum: 0.0, epsilon: 1e-7, centered: false, extras: Extras::default() }
    }

    pub(crate) fn slots(&self) -> &'static [Slot] {
        match (self.momentum == 0.0, self.centered) {
            (true, false) => const { &[Slot::new("rms")] },
            (true, true) => const { &[Slot::new("rms"), Slot::new("mg")] },
            (false, false) => const { &[Slot::new("rms"), Slot::new("momentum")] },
            (false, true) => const { &[Slot::new("rms"), Slot::new("momentum"), Slot::new("mg")] },
        }
    }

    pub(crate) fn at_step(&self, _step: u64) -> Kernels {
        let Self { learning_rate, rho, momentum, epsilon, centered, .. } = *self;
        let take = 1.0 - rho;
        match (momentum == 0.0, centered) {
            (true, false) => Kernels::RmsProp(Step { learning_rate, take, momentum, epsilon }),
            (true, true) => Kernels::RmsPropCentered(Step { learning_rate, take, momentum, epsilon }),
            (false, false) => Kernels::RmsPropMomentum(Step { learning_rate, take, momentum, epsilon }),
            (false, true) => Kernels::RmsPropCenteredMomentum(Step { learning_rate, take, momentum, epsilon }),
        }
    }
}

/// Keras' defaults.
impl Default for RmsProp {
    fn default() -> Self {
        Self::new(0.001)
    }
}

settings! {
    RmsProp, "rmsprop", 4.0;
    learning_rate: NotNegative, rho: Decay, momentum: Fraction, epsilon: NotNegative, centered: Flag;
    /// Sets how much of the averages is kept per step: from 0 to below 1.
    rho: f32,
    /// Keeps this fraction of the last step, from 0 to 1. With 0 (the default) there is no momentum and no slot for it.
    momentum: f32,
    /// Keeps the division away from zero.
    epsilon: f32,
    /// Divides by the estimated variance of the gradient instead of its mean square.
    centered: bool
}

/// One step; the kernels differ in their slots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step<const CENTERED: bool, const MOMENTUM: bool> {
    learning_rate: f32,
    take: f32,
    momentum: f32,
    epsilon: f32,
}

impl<const CENTERED: bool, const MOMENTUM: bool> Step<CENTERED, MOMENTUM> {
    #[inline(always)]
    fn take_in(self, average: &mut f32, new: f32) {
        *average += (new - *average) * self.take;
    }

    /// Returns the change without momentum: epsilon outside the root.
    #[inline(always)]
    fn change(self, spread: f32, grad: f32) -> f32 {
        self.learning_rate * grad / (spread.sqrt() + self.epsilon)
    }

    /// Updates the momentum: epsilon inside the root.
    #[inline(always)]
    fn accelerate(self, kept: &mut f32, spread: f32, grad: f32) {
        *kept = *kept * self.momentum + (grad * self.learning_rate) / (spread + self.epsilon).sqrt();
    }
}

#[inline(always)]
fn variance(rms: f32, mg: f32) -> f32 {
    (rms - mg * mg).max(0.0)
}

impl Kernel<1> for Step<false, false> {
    #[inline(always)]
    fn element(self, value: f32, [rms]: &mut [f32; 1], grad: f32) -> f32 {
        self.take_in(rms, grad * grad);
        value - self.change(*rms, grad)
    }
}

impl Kernel<2> for Step<true, false> {
    #[inline(always)]
    fn element(self, value: f32, [rms, mg]: &mut [f32; 2], grad: f32) -> f32 {
        self.take_in(rms, grad * grad);
        self.take_in(mg, grad);
        value - self.change(variance(*rms, *mg), grad)
    }
}

impl Kernel<2> for Step<false, true> {
    #[inline(always)]
    fn element(self, value: f32, [rms, kept]: &mut [f32; 2], grad: f32) -> f32 {
        self.take_in(rms, grad * grad);
        self.accelerate(kept, *rms, grad);
        value - *kept
    }
}

impl Kernel<3> for Step<true, true> {
    #[inline(always)]
    fn element(self, value: f32, [rms, kept, mg]: &mut [f32; 3], grad: f32) -> f32 {
        self.take_in(rms, grad * grad);
        self.take_in(mg, grad);
        self.accelerate(kept, variance(*rms, *mg), grad);
        value - *kept
    }
}

#[cfg(test)]
mod tests {
    use crate::{Optimizer, RmsProp};

    #[test]
    fn a_constant_gradient_never_makes_a_centered_value_nan() {
        for momentum in [0.0, 0.9] {
            let optimizer: Optimizer = RmsProp::new(0.001).centered(true).momentum(momentum).into();
            let mut row = vec![1.0; 1 + optimizer.slot_count()];
            optimizer.init_slots(&mut row);
            for step in 1..=2000 {
                optimizer.at_step(step).apply(&mut row, &[333.3]).unwrap();
                assert!(row.iter().all(|x| x.is_finite()), "step {step}: {row:?}");
            }
        }
    }
}
