//! Adam with decoupled weight decay.

use crate::Slot;
use crate::adam::Moments;
use crate::kernel::Kernel;
use crate::rule::Kernels;
use crate::setting::{Extras, settings};

/// AdamW as Keras 2.15 computes it: `value -= value · weight_decay · rate`, then [`Adam`](crate::Adam)'s update.
///
/// On a table only the rows of the step decay.
///
/// ```
/// use phalanx_optim::{AdamW, Optimizer};
/// let optimizer: Optimizer = AdamW::new(0.1).weight_decay(0.5).into();
/// let mut row = [2.0, 0.0, 0.0]; // a value, its m and its v
/// optimizer.at_step(1).apply(&mut row, &[0.0])?;
/// assert_eq!(row[0], 1.9);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamW {
    pub(crate) learning_rate: f32,
    weight_decay: f32,
    beta_1: f32,
    beta_2: f32,
    epsilon: f32,
    pub(crate) extras: Extras,
}

impl AdamW {
    /// AdamW with this rate, a weight decay of 0.004, averages of 0.9 and 0.999 and an epsilon of 1e-7.
    #[must_use]
    pub fn new(learning_rate: f32) -> Self {
        Self {
            learning_rate,
            weight_decay: 0.004,
            beta_1: 0.9,
            beta_2: 0.999,
            epsilon: 1e-7,
            extras: Extras::default(),
        }
    }

    pub(crate) fn slots(&self) -> &'static [Slot] {
        const { &[Slot::new("m"), Slot::new("v")] }
    }

    pub(crate) fn at_step(&self, step: u64) -> Kernels {
        let moments = Moments::at_step(self.learning_rate, self.beta_1, self.beta_2, self.epsilon, step);
        Kernels::AdamW(Step { moments, weight_decay: self.weight_decay, learning_rate: self.learning_rate })
    }
}

/// Keras' defaults.
impl Default for AdamW {
    fn default() -> Self {
        Self::new(0.001)
    }
}

settings! {
    AdamW, "adamw", 6.0;
    learning_rate: NotNegative, weight_decay: NotNegative, beta_1: Decay, beta_2: Decay, epsilon: NotNegative;
    /// Sets the fraction of the value, times the rate, that each step subtracts: 0 or above.
    weight_decay: f32,
    /// Sets how much of the average of gradients is kept per step: from 0 to below 1.
    beta_1: f32,
    /// Sets how much of the average of squared gradients is kept per step: from 0 to below 1.
    beta_2: f32,
    /// Keeps the division away from zero. It is the "epsilon hat" of the paper, as in TensorFlow.
    epsilon: f32
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    moments: Moments,
    weight_decay: f32,
    learning_rate: f32,
}

impl Kernel<2> for Step {
    #[inline(always)]
    fn element(self, value: f32, [m, v]: &mut [f32; 2], grad: f32) -> f32 {
        let decayed = value - value * self.weight_decay * self.learning_rate;
        self.moments.take_in(m, v, grad);
        decayed - self.moments.change(*m, *v)
    }
}
