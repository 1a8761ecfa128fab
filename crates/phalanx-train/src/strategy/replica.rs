//! One copy of the model, computing its part of a step.

use phalanx_base::{Result, STRIDE};
use phalanx_nn::burn::module::Module;
use phalanx_nn::burn::tensor::{Device, Tensor};
use phalanx_nn::{Book, Flat};

/// The gradients of a loss, one for each trainable parameter in the model's order; `None` where it does not depend on it.
#[derive(Clone, Debug)]
pub struct Gradient(pub(crate) Vec<Option<Flat>>);

impl Gradient {
    /// The numbers, to be looked at or changed before they are applied.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut [f32]> {
        self.0.iter_mut().flatten().map(|flat| &mut **flat)
    }

    /// The square root of the sum of all squares.
    #[must_use]
    pub fn norm(&self) -> f32 {
        let squares = |flat: &Flat| flat.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>();
        self.0.iter().flatten().map(squares).sum::<f64>().sqrt() as f32
    }
}

/// What a step function is given: the model, and which replica it is.
pub struct Replica<'a, M> {
    pub(crate) module: M,
    pub(crate) book: &'a Book,
    pub(crate) device: &'a Device,
    pub(crate) id: usize,
    pub(crate) replicas: usize,
    pub(crate) step: u64,
    pub(crate) pending: Option<Gradient>,
}

impl<M: Module> Replica<'_, M> {
    /// The model, on this replica's device.
    #[must_use]
    pub fn model(&self) -> &M {
        &self.module
    }

    /// The number of this replica among all, from 0.
    #[must_use]
    pub fn id(&self) -> usize {
        self.id
    }

    /// How many replicas compute this step together.
    #[must_use]
    pub fn num_replicas_in_sync(&self) -> usize {
        self.replicas
    }

    /// Where this replica computes.
    #[must_use]
    pub fn device(&self) -> &Device {
        self.device
    }

    /// A number that differs for every step and replica, and repeats in the next run: what dropout starts from.
    #[must_use]
    pub fn seed(&self) -> u64 {
        seed_of(self.step, self.id as u64)
    }

    /// The gradients of `loss`: what `tape.gradient` gives in TensorFlow.
    ///
    /// # Errors
    /// When they are not 32-bit floats.
    pub fn gradient(&self, loss: Tensor<1>) -> Result<Gradient> {
        Ok(Gradient(self.book.gradients(&self.module, &mut loss.backward())?))
    }

    /// Hands gradients over to be summed over all replicas and applied when every replica has returned. Of a replica
    /// that does it several times in a step, the gradients add up.
    pub fn apply_gradients(&mut self, gradient: Gradient) {
        match &mut self.pending {
            Some(pending) => add(&mut pending.0, gradient.0),
            None => self.pending = Some(gradient),
        }
    }
}

/// What a replica leaves behind when its part of the step is done.
pub(crate) struct Computed {
    pub(crate) gradients: Vec<Option<Flat>>,
    /// The values of its moving averages.
    pub(crate) states: Vec<Vec<f32>>,
}

/// Adds gradients parameter by parameter.
pub(crate) fn add(into: &mut [Option<Flat>], more: Vec<Option<Flat>>) {
    for (sum, gradient) in into.iter_mut().zip(more) {
        match (sum.as_mut(), gradient) {
            (Some(sum), Some(gradient)) => sum.iter_mut().zip(&*gradient).for_each(|(sum, number)| *sum += number),
            (None, gradient) => *sum = gradient,
            (Some(_), None) => {}
        }
    }
}

/// A number that differs for every step and whoever computes it.
pub(crate) fn seed_of(step: u64, who: u64) -> u64 {
    (step + 1).wrapping_mul(STRIDE) ^ who.wrapping_mul(0xd6e8_feb8_6659_fd93)
}
