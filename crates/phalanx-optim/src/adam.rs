//! Adam, and its AMSGrad variant.

use crate::Slot;
use crate::kernel::Kernel;
use crate::rule::Kernels;
use crate::setting::{Extras, settings};

/// Adam (`ResourceApplyAdam`): `m` and `v` are running averages of `g` and `g²`, and
/// `value -= rate · √(1 − β₂ᵗ) / (1 − β₁ᵗ) · m / (√v + epsilon)`, where `t` is the variable's step number.
///
/// On a table the update is lazy unless [`Self::lazy`] says otherwise: rows without a gradient keep their `m` and `v` (see the
/// crate's page).
///
/// ```
/// use phalanx_optim::{Adam, Optimizer};
/// let optimizer: Optimizer = Adam::new(0.01).beta_1(0.8).beta_2(0.99).epsilon(1e-8).into();
/// let mut row = [1.0, 0.0, 0.0]; // a value, its m and its v
/// optimizer.at_step(1).apply(&mut row, &[5.0])?;
/// assert!((row[0] - 0.99).abs() < 1e-6); // the first step has the size of the rate
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adam {
    pub(crate) learning_rate: f32,
    beta_1: f32,
    beta_2: f32,
    epsilon: f32,
    amsgrad: bool,
    lazy: bool,
    pub(crate) extras: Extras,
}

impl Adam {
    /// Adam with this rate, averages of 0.9 and 0.999 and an epsilon of 1e-7.
    #[must_use]
    pub fn new(learning_rate: f32) -> Self {
        Self {
            learning_rate,
            beta_1: 0.9,
            beta_2: 0.999,
            epsilon: 1e-7,
            amsgrad: false,
            lazy: true,
            extras: Extras::default(),
        }
    }

    /// Returns how much of the averages of gradients and of squared gradients is kept per step.
    #[must_use]
    pub fn betas(&self) -> (f32, f32) {
        (self.beta_1, self.beta_2)
    }

    /// Returns whether rows of a table that have no gradient are left alone.
    #[must_use]
    pub fn is_lazy(&self) -> bool {
        self.lazy
    }

    pub(crate) fn slots(&self) -> &'static [Slot] {
        if self.amsgrad {
            const { &[Slot::new("m"), Slot::new("v"), Slot::new("vhat")] }
        } else {
            const { &[Slot::new("m"), Slot::new("v")] }
        }
    }

    pub(crate) fn at_step(&self, step: u64) -> Kernels {
        let moments = Moments::at_step(self.learning_rate, self.beta_1, self.beta_2, self.epsilon, step);
        if self.amsgrad { Kernels::Amsgrad(Amsgrad(moments)) } else { Kernels::Adam(moments) }
    }
}

/// Keras' defaults.
impl Default for Adam {
    fn default() -> Self {
        Self::new(0.001)
    }
}

settings! {
    Adam, "adam", 5.0;
    learning_rate: NotNegative, beta_1: Decay, beta_2: Decay, epsilon: NotNegative, amsgrad: Flag, lazy: Flag;
    /// Sets how much of the average of gradients is kept per step: from 0 to below 1.
    beta_1: f32,
    /// Sets how much of the average of squared gradients is kept per step: from 0 to below 1.
    beta_2: f32,
    /// Keeps the division away from zero. It is the "epsilon hat" of the paper, as in TensorFlow.
    epsilon: f32,
    /// Divides by the largest `v` seen so far (`ResourceApplyAdamWithAmsgrad`), at the cost of a third slot.
    amsgrad: bool,
    /// Sets whether rows of a table that have no gradient are left alone (the default), as in `LazyAdam`. Otherwise every row
    /// of the table is updated in every step, as TensorFlow's Adam does: the estimator then sends complete tables, so this is
    /// for small ones.
    lazy: bool
}

/// One step of Adam: both averages, and the rate corrected for their having started at zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moments {
    rate: f32,
    take_1: f32,
    take_2: f32,
    epsilon: f32,
}

impl Moments {
    pub(crate) fn at_step(learning_rate: f32, beta_1: f32, beta_2: f32, epsilon: f32, step: u64) -> Self {
        // TensorFlow holds the powers and the differences as f32, so they are rounded here too: 1 - 0.999 then has only
        // four good digits, and agreeing with TensorFlow matters more than those digits.
        let power = |beta: f32| f64::from(beta).powf(step.max(1) as f64) as f32;
        let rate = learning_rate * (1.0 - power(beta_2)).sqrt() / (1.0 - power(beta_1));
        Self { rate, take_1: 1.0 - beta_1, take_2: 1.0 - beta_2, epsilon }
    }

    #[inline(always)]
    pub(crate) fn take_in(self, m: &mut f32, v: &mut f32, grad: f32) {
        *m += (grad - *m) * self.take_1;
        *v += (grad * grad - *v) * self.take_2;
    }

    #[inline(always)]
    pub(crate) fn change(self, m: f32, v: f32) -> f32 {
        (m * self.rate) / (v.sqrt() + self.epsilon)
    }
}

impl Kernel<2> for Moments {
    #[inline(always)]
    fn element(self, value: f32, [m, v]: &mut [f32; 2], grad: f32) -> f32 {
        self.take_in(m, v, grad);
        value - self.change(*m, *v)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Amsgrad(Moments);

impl Kernel<3> for Amsgrad {
    #[inline(always)]
    fn element(self, value: f32, [m, v, vhat]: &mut [f32; 3], grad: f32) -> f32 {
        self.0.take_in(m, v, grad);
        *vhat = vhat.max(*v);
        value - self.0.change(*m, *vhat)
    }
}
