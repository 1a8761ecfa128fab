//! The arithmetic of one step, with its scalars prepared.

use phalanx_base::{Code, Error, Result};

use crate::kernel::Kernel;
use crate::simd::Level;
use crate::{adagrad, adam, adamw, ftrl, momentum, rmsprop, sgd};

/// An [`Optimizer`](crate::Optimizer) at one step: created once per update, applied to any number of chunks and rows.
///
/// ```
/// use phalanx_optim::{Optimizer, Sgd};
/// let rule = Optimizer::from(Sgd::new(0.5)).at_step(1);
/// let mut value = [1.0, 1.0, 1.0];
/// rule.apply(&mut value, &[1.0, 2.0, 3.0])?;
/// assert_eq!(value, [0.5, 0.0, -0.5]);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    kernel: Kernels,
    level: Level,
}

/// All kernels. Settings that change the arithmetic (momentum or not) choose the variant, so that no element branches on
/// them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kernels {
    Sgd(sgd::Plain),
    SgdMomentum(sgd::WithMomentum<false>),
    SgdNesterov(sgd::WithMomentum<true>),
    Momentum(momentum::Step<false>),
    Nesterov(momentum::Step<true>),
    Adagrad(adagrad::Step),
    RmsProp(rmsprop::Step<false, false>),
    RmsPropCentered(rmsprop::Step<true, false>),
    RmsPropMomentum(rmsprop::Step<false, true>),
    RmsPropCenteredMomentum(rmsprop::Step<true, true>),
    Adam(adam::Moments),
    Amsgrad(adam::Amsgrad),
    AdamW(adamw::Step),
    Ftrl(ftrl::Step<true>),
    FtrlPower(ftrl::Step<false>),
}

/// Runs `$body` with `$kernel` bound to the kernel of a rule, whichever it is.
macro_rules! each_kernel {
    ($rule:expr, $kernel:ident => $body:expr) => {
        match $rule {
            Kernels::Sgd($kernel) => $body,
            Kernels::SgdMomentum($kernel) => $body,
            Kernels::SgdNesterov($kernel) => $body,
            Kernels::Momentum($kernel) => $body,
            Kernels::Nesterov($kernel) => $body,
            Kernels::Adagrad($kernel) => $body,
            Kernels::RmsProp($kernel) => $body,
            Kernels::RmsPropCentered($kernel) => $body,
            Kernels::RmsPropMomentum($kernel) => $body,
            Kernels::RmsPropCenteredMomentum($kernel) => $body,
            Kernels::Adam($kernel) => $body,
            Kernels::Amsgrad($kernel) => $body,
            Kernels::AdamW($kernel) => $body,
            Kernels::Ftrl($kernel) => $body,
            Kernels::FtrlPower($kernel) => $body,
        }
    };
}

/// Returns the number of slots of a kernel, from its type.
fn slots_of<const N: usize, K: Kernel<N>>(_: K) -> usize {
    N
}

/// Runs a kernel on elements `at..at + grad.len()` of each part of `buffer`; the caller has checked that they are there.
fn in_one_buffer<const N: usize, K: Kernel<N>>(level: Level, kernel: K, buffer: &mut [f32], at: usize, grad: &[f32]) {
    let part = buffer.len() / (N + 1);
    let mut rest = buffer;
    let mut next = || &mut rest.split_off_mut(..part).unwrap_or_default()[at..at + grad.len()];
    let values = next();
    level.run(kernel, values, std::array::from_fn(|_| next()), grad);
}

impl Rule {
    pub(crate) fn new(kernel: Kernels) -> Self {
        Self { kernel, level: Level::detect() }
    }

    /// Returns the number of slots of each value.
    #[must_use]
    pub fn slot_count(&self) -> usize {
        each_kernel!(self.kernel, kernel => slots_of(kernel))
    }

    /// Updates a buffer laid out as `[value][slot 0][slot 1]…`: a chunk of a variable, or a row of a table.
    ///
    /// # Errors
    /// When the buffer does not hold `grad.len()` elements in each part; nothing is changed then.
    #[inline]
    pub fn apply(&self, values_and_slots: &mut [f32], grad: &[f32]) -> Result<()> {
        if values_and_slots.len() != grad.len() * (1 + self.slot_count()) {
            return Err(self.mismatch(values_and_slots.len(), 0, grad.len()));
        }
        self.run(values_and_slots, 0, grad);
        Ok(())
    }

    /// Updates elements `at..at + grad.len()` of every part of the buffer: gradients that arrive in runs.
    ///
    /// ```
    /// use phalanx_optim::{Optimizer, Sgd};
    /// let rule = Optimizer::from(Sgd::new(1.0)).at_step(1);
    /// let mut value = [0.0; 4];
    /// rule.apply_range(&mut value, 1, &[1.0, 2.0])?;
    /// assert_eq!(value, [0.0, -1.0, -2.0, 0.0]);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the buffer does not divide into equal parts or the run does not lie inside them; nothing is changed then.
    #[inline]
    pub fn apply_range(&self, values_and_slots: &mut [f32], at: usize, grad: &[f32]) -> Result<()> {
        let parts = 1 + self.slot_count();
        let part = values_and_slots.len() / parts;
        let fits = at.checked_add(grad.len()).is_some_and(|end| end <= part);
        if part * parts != values_and_slots.len() || !fits {
            return Err(self.mismatch(values_and_slots.len(), at, grad.len()));
        }
        self.run(values_and_slots, at, grad);
        Ok(())
    }

    /// Updates values whose slots lie in separate slices, each as long as the values.
    ///
    /// ```
    /// use phalanx_optim::{Adagrad, Optimizer};
    /// let rule = Optimizer::from(Adagrad::new(1.0)).at_step(1);
    /// let (mut value, mut accumulator) = ([1.0; 4], [0.0; 4]);
    /// rule.apply_beside(&mut value, [&mut accumulator[..]], &[3.0; 4])?;
    /// assert_eq!(accumulator, [9.0; 4]);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// When there is another number of slots, or one has another length; nothing is changed then.
    pub fn apply_beside<'a, S>(&self, value: &mut [f32], slots: S, grad: &[f32]) -> Result<()>
    where
        S: IntoIterator<Item = &'a mut [f32]>,
    {
        each_kernel!(self.kernel, kernel => self.beside(kernel, value, slots, grad))
    }

    fn beside<'a, const N: usize, K: Kernel<N>>(
        &self,
        kernel: K,
        value: &mut [f32],
        slots: impl IntoIterator<Item = &'a mut [f32]>,
        grad: &[f32],
    ) -> Result<()> {
        let mut given = slots.into_iter();
        let slots: [&mut [f32]; N] = std::array::from_fn(|_| given.next().unwrap_or_default());
        let held = value.len() + slots.iter().map(|slot| slot.len()).sum::<usize>();
        let fits = value.len() == grad.len() && slots.iter().all(|slot| slot.len() == grad.len());
        if !fits || given.next().is_some() {
            return Err(self.mismatch(held, 0, grad.len()));
        }
        self.level.run(kernel, value, slots, grad);
        Ok(())
    }

    fn run(&self, buffer: &mut [f32], at: usize, grad: &[f32]) {
        each_kernel!(self.kernel, kernel => in_one_buffer(self.level, kernel, buffer, at, grad));
    }

    #[cold]
    fn mismatch(&self, buffer: usize, at: usize, grad: usize) -> Error {
        let parts = 1 + self.slot_count();
        let what = format!("a gradient of {grad} elements at {at} does not fit {buffer} elements in {parts} parts");
        Error::new(Code::ShapeMismatch, what)
    }
}
