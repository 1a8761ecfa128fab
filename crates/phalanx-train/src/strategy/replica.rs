//! One replica's part of a step.

use super::metrics::ReplicaMetrics;
use crate::tables::{RecordedRows, RowGradient, add_rows};
use phalanx_base::{Result, STRIDE};
use phalanx_nn::burn::module::Module;
use phalanx_nn::burn::tensor::{Device, Tensor};
use phalanx_nn::{HostBuffer, ParameterRegistry};
use std::cell::Cell;
use std::sync::Arc;

/// The gradients of a loss, one per trainable parameter in the model's order; `None` if the loss does not depend on it.
#[derive(Clone, Debug)]
pub struct Gradient {
    pub(crate) dense: Vec<Option<HostBuffer>>,
    /// The gradients of rows of tables on parameter servers.
    pub(crate) rows: Vec<RowGradient>,
}

impl Gradient {
    /// Iterates over the gradients of the parameters, for example to clip them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut [f32]> {
        let rows = self.rows.iter_mut().map(|of| &mut *of.numbers);
        self.dense.iter_mut().flatten().map(|flat| &mut **flat).chain(rows)
    }

    /// Returns the global L2 norm.
    #[must_use]
    pub fn norm(&self) -> f32 {
        let all = self.dense.iter().flatten().chain(self.rows.iter().map(|of| &of.numbers));
        phalanx_optim::norm(all.map(|numbers| &**numbers)) as f32
    }

    pub(crate) fn add(&mut self, more: Self) {
        add(&mut self.dense, more.dense);
        add_rows(&mut self.rows, more.rows);
    }
}

/// The argument of a step function: the model and the replica's identity.
pub struct Replica<'a, M> {
    pub(crate) module: M,
    pub(crate) registry: &'a ParameterRegistry,
    pub(crate) device: &'a Device,
    pub(crate) id: usize,
    pub(crate) replicas: usize,
    pub(crate) step: u64,
    /// The rows that were looked up, where the model's tables are on parameter servers.
    pub(crate) rows: Option<Arc<RecordedRows>>,
    /// The sum of the losses of which gradients were computed.
    pub(crate) loss: Cell<f32>,
    pub(crate) pending: Option<Gradient>,
    pub(super) metrics: ReplicaMetrics,
}

impl<M: Module> Replica<'_, M> {
    /// Returns the model on this replica's device.
    #[must_use]
    pub fn model(&self) -> &M {
        &self.module
    }

    /// Returns the id of this replica among those of all workers, from 0.
    #[must_use]
    pub fn id(&self) -> usize {
        self.id
    }

    /// Returns the number of replicas of all workers.
    #[must_use]
    pub fn num_replicas_in_sync(&self) -> usize {
        self.replicas
    }

    /// Returns the device of this replica.
    #[must_use]
    pub fn device(&self) -> &Device {
        self.device
    }

    /// Returns a reproducible seed for this step and replica, for example for dropout.
    #[must_use]
    pub fn seed(&self) -> u64 {
        seed_of(self.step, self.id as u64)
    }

    /// Returns the gradients of `loss`: TensorFlow's `tape.gradient`.
    ///
    /// # Errors
    /// Fails if they are not 32-bit floats.
    pub fn gradient(&self, loss: Tensor<1>) -> Result<Gradient> {
        let mut gradients = loss.backward();
        self.loss.set(self.loss.get() + phalanx_nn::scalar(loss)?);
        let rows = self.rows.as_ref().map(|rows| rows.gradients(&mut gradients)).transpose()?;
        let dense = self.registry.gradients(&self.module, &mut gradients)?;
        Ok(Gradient { dense, rows: rows.unwrap_or_default() })
    }

    /// Submits gradients, which are summed over all replicas and applied when every replica has returned. Several calls
    /// in one step add up.
    pub fn apply_gradients(&mut self, gradient: Gradient) {
        match &mut self.pending {
            Some(pending) => pending.add(gradient),
            None => self.pending = Some(gradient),
        }
    }
}

/// The result of a replica's part of a step.
pub(crate) struct ReplicaUpdate {
    /// The sum of the losses of which gradients were computed.
    pub(crate) loss: f32,
    pub(crate) gradients: Vec<Option<HostBuffer>>,
    /// The values of its moving averages.
    pub(crate) states: Vec<Vec<f32>>,
}

/// Adds gradients parameter by parameter.
pub(crate) fn add(into: &mut [Option<HostBuffer>], more: Vec<Option<HostBuffer>>) {
    for (sum, gradient) in into.iter_mut().zip(more) {
        match (sum.as_mut(), gradient) {
            (Some(sum), Some(gradient)) => sum.iter_mut().zip(&*gradient).for_each(|(sum, number)| *sum += number),
            (None, gradient) => *sum = gradient,
            (Some(_), None) => {}
        }
    }
}

/// Returns a seed for a step of a replica or worker.
pub(crate) fn seed_of(step: u64, who: u64) -> u64 {
    (step + 1).wrapping_mul(STRIDE) ^ who.wrapping_mul(0xd6e8_feb8_6659_fd93)
}
