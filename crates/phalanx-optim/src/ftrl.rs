//! Follow the regularized leader, the rule of sparse linear models.

use crate::Slot;
use crate::kernel::Kernel;
use crate::rule::Kernels;
use crate::setting::{Extras, settings};

/// FTRL-Proximal (`ResourceApplyFtrlV2`): keeps a linear term and solves for the value at each step, so that L1 makes
/// weights exactly zero.
///
/// With `a` the accumulator, `p` the negated learning rate power and `g' = g + 2 · shrinkage · value`:
/// `linear += g' − ((a + g²)ᵖ − aᵖ) / rate · value; a += g²`, and the value is 0 where `|linear| ≤ l1`, else
/// `(±l1 − linear) / (aᵖ / rate + 2 · l2)`. A beta adds `beta / (2 · rate)` to `l2`, as in Keras.
///
/// ```
/// use phalanx_optim::{Ftrl, Optimizer};
/// let optimizer: Optimizer = Ftrl::new(0.2).l1(0.5).l2(0.01).into();
/// let mut row = [0.0, 0.0, 0.0]; // a value, its accumulator and its linear term
/// optimizer.init_slots(&mut row);
/// optimizer.at_step(1).apply(&mut row, &[0.4])?;
/// assert_eq!(row[0], 0.0); // L1 holds it at zero
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ftrl {
    pub(crate) learning_rate: f32,
    learning_rate_power: f32,
    pub(crate) initial_accumulator_value: f32,
    l1: f32,
    l2: f32,
    l2_shrinkage: f32,
    beta: f32,
    pub(crate) extras: Extras,
}

impl Ftrl {
    /// FTRL with this rate, a power of -0.5, an initial accumulator of 0.1 and no regularization.
    #[must_use]
    pub fn new(learning_rate: f32) -> Self {
        Self {
            learning_rate,
            learning_rate_power: -0.5,
            initial_accumulator_value: 0.1,
            l1: 0.0,
            l2: 0.0,
            l2_shrinkage: 0.0,
            beta: 0.0,
            extras: Extras::default(),
        }
    }

    pub(crate) fn slots(&self) -> &'static [Slot] {
        const { &[Slot::new("accumulator"), Slot::new("linear")] }
    }

    pub(crate) fn at_step(&self, _step: u64) -> Kernels {
        let l2 = self.l2 + self.beta / (2.0 * self.learning_rate);
        let rate = self.learning_rate;
        let (power, twice_l2, twice_shrinkage) = (-self.learning_rate_power, 2.0 * l2, 2.0 * self.l2_shrinkage);
        if self.learning_rate_power == -0.5 {
            Kernels::Ftrl(Step { rate, power, l1: self.l1, twice_l2, twice_shrinkage })
        } else {
            Kernels::FtrlPower(Step { rate, power, l1: self.l1, twice_l2, twice_shrinkage })
        }
    }
}

/// Keras' defaults.
impl Default for Ftrl {
    fn default() -> Self {
        Self::new(0.001)
    }
}

// The rate divides here, so it cannot be zero.
settings! {
    Ftrl, "ftrl", 7.0;
    learning_rate: Positive, learning_rate_power: NotPositive, initial_accumulator_value: NotNegative, l1: NotNegative, l2: NotNegative, l2_shrinkage: NotNegative, beta: NotNegative;
    /// Sets how the rate falls as the accumulator grows: 0 (not at all) or below; any other than -0.5 is slower to compute.
    learning_rate_power: f32,
    /// Sets the accumulator before the first update: 0 or above.
    initial_accumulator_value: f32,
    /// Sets the L1 regularization: 0 or above.
    l1: f32,
    /// Sets the L2 regularization as a penalty on the solution: 0 or above.
    l2: f32,
    /// Sets the L2 regularization as a part of the gradient, which only the linear term sees: 0 or above.
    l2_shrinkage: f32,
    /// Sets the beta of the paper: 0 or above.
    beta: f32
}

/// `ROOT` is the usual power of one half: square roots are vector instructions, powers are calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step<const ROOT: bool> {
    rate: f32,
    power: f32,
    l1: f32,
    twice_l2: f32,
    twice_shrinkage: f32,
}

impl<const ROOT: bool> Step<ROOT> {
    #[inline(always)]
    fn raise(self, accumulator: f32) -> f32 {
        if ROOT { accumulator.sqrt() } else { accumulator.powf(self.power) }
    }
}

impl<const ROOT: bool> Kernel<2> for Step<ROOT> {
    #[inline(always)]
    fn element(self, value: f32, [accumulator, linear]: &mut [f32; 2], grad: f32) -> f32 {
        let before = self.raise(*accumulator);
        *accumulator += grad * grad;
        let after = self.raise(*accumulator);
        *linear += (grad + self.twice_shrinkage * value) - (after - before) / self.rate * value;
        // Chosen, not only computed: where L1 holds the value at zero the quotient may be 0/0.
        let solved = (self.l1.copysign(*linear) - *linear) / (after / self.rate + self.twice_l2);
        if linear.abs() > self.l1 { solved } else { 0.0 }
    }
}
