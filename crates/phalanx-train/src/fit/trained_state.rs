//! The state of a compiled model that callbacks and backups read and write, whatever its network type.

use super::{Compiled, Weight};
use crate::session::NormRequest;
use crate::{Strategy, SummaryWriter};
use phalanx_base::{Code, Error, Result};
use phalanx_nn::{Network, Parameter};
use phalanx_optim::Optimizer;
use std::sync::Arc;

/// State that can be saved and restored.
pub(crate) trait TrainedState {
    fn strategy(&self) -> &Strategy;
    fn iterations(&self) -> u64;
    fn learning_rate(&self) -> f32;
    /// Returns whether the learning rate follows a schedule.
    fn has_schedule(&self) -> bool;
    fn set_learning_rate(&mut self, rate: f32) -> Result<()>;
    /// The weights of the model, moving averages included.
    fn weights(&mut self) -> Result<Vec<Weight>>;
    /// The moving averages alone. Within an epoch every worker updates its own.
    fn states(&mut self) -> Result<Vec<Weight>>;
    fn set_weights(&mut self, weights: Vec<Weight>) -> Result<()>;
    fn save_weights(&mut self, location: &str) -> Result<()>;
    fn load_weights(&mut self, location: &str) -> Result<()>;
    /// The optimizer's slots, under the names of TensorFlow's checkpoints.
    fn slots(&mut self) -> Vec<Weight>;
    fn set_slots(&mut self, slots: Vec<Weight>, iterations: u64) -> Result<()>;
    /// The request for the norm of a step's gradients.
    fn norm_request(&mut self) -> Option<&mut NormRequest>;
    /// The writer of summaries of this training; `None` where there is no run directory, or another task writes.
    fn summaries(&mut self) -> Result<Option<Arc<SummaryWriter>>>;
    /// Fails if backups are not supported.
    fn check_backup(&self) -> Result<()> {
        Ok(())
    }
}

impl<M: Network> TrainedState for Compiled<M> {
    fn strategy(&self) -> &Strategy {
        Self::strategy(self)
    }

    fn iterations(&self) -> u64 {
        Self::iterations(self)
    }

    fn learning_rate(&self) -> f32 {
        let rate = |optimizer: Optimizer| match optimizer.schedule() {
            Some(schedule) => schedule.at(self.iterations()),
            None => optimizer.learning_rate(),
        };
        self.optimizer().map_or(0.0, rate)
    }

    fn has_schedule(&self) -> bool {
        self.optimizer().is_some_and(|optimizer| optimizer.schedule().is_some())
    }

    fn set_learning_rate(&mut self, rate: f32) -> Result<()> {
        Self::set_learning_rate(self, rate)
    }

    fn norm_request(&mut self) -> Option<&mut NormRequest> {
        self.model.norm_request()
    }

    fn summaries(&mut self) -> Result<Option<Arc<SummaryWriter>>> {
        match Self::strategy(self).run_dir()? {
            Some(dir) => Ok(Some(Arc::new(SummaryWriter::open(&dir)?))),
            None => Ok(None),
        }
    }

    fn weights(&mut self) -> Result<Vec<Weight>> {
        Self::weights(self)
    }

    fn states(&mut self) -> Result<Vec<Weight>> {
        let trained = self.model.registry.parameters().len() + self.model.tables.specs().len();
        Ok(Self::weights(self)?.split_off(trained))
    }

    fn set_weights(&mut self, weights: Vec<Weight>) -> Result<()> {
        Self::set_weights(self, weights)
    }

    fn save_weights(&mut self, location: &str) -> Result<()> {
        Self::save_weights(self, location)
    }

    fn load_weights(&mut self, location: &str) -> Result<()> {
        Self::load_weights(self, location)
    }

    fn slots(&mut self) -> Vec<Weight> {
        let Some(update) = &self.model.update else { return Vec::new() };
        let optimizer = update.optimizer;
        let of = |(parameter, slots): (&Parameter, &Vec<Vec<f32>>)| {
            let named = slots.iter().enumerate().map(|(slot, values)| Weight {
                name: optimizer.slot_in_checkpoint(&parameter.name, slot),
                shape: parameter.shape.clone(),
                values: values.clone(),
            });
            named.collect::<Vec<_>>()
        };
        self.model.registry.parameters().iter().zip(&update.slots).flat_map(of).collect()
    }

    fn set_slots(&mut self, slots: Vec<Weight>, iterations: u64) -> Result<()> {
        let Some(update) = &mut self.model.update else { return Ok(()) };
        let mut given = slots.into_iter();
        for slot in update.slots.iter_mut().flatten() {
            let Some(weight) = given.next() else { break };
            if weight.values.len() != slot.len() {
                return Err(Error::new(Code::ShapeMismatch, format!("{} has a different size here", weight.name)));
            }
            *slot = weight.values;
        }
        update.iterations = iterations;
        Ok(())
    }
}
