//! `predict`: a model's outputs.

use super::evaluate::nothing;
use super::{Compiled, Data};
use crate::strategy::PerReplica;
use phalanx_base::{Code, Error, Result};
use phalanx_data::{Batch, Column, Dataset};
use phalanx_nn::Network;
use phalanx_nn::model::{DynTensor, Mode};

/// The numbers of an output for a batch, and the shape of a row.
type Output = (Vec<f32>, Vec<usize>);

impl<M: Network> Compiled<M> {
    /// Returns the output for each row, in order. Arrays are taken in batches of 32 rows. Replicas and mirrored workers take
    /// batches in turn: every worker must call it with the same data, and gets the outputs of all rows, which are those of
    /// one process. With parameter servers every task that calls it computes them itself, on the values of the last call.
    ///
    /// # Errors
    /// Fails if the data cannot be read or does not fit the model, the model has several outputs, or a worker is lost.
    pub fn predict(&self, data: impl Into<Data>) -> Result<Column> {
        let mut outputs = self.predict_all(data)?;
        match (outputs.pop(), outputs.is_empty()) {
            (Some(output), true) => Ok(output),
            _ => Err(Error::new(Code::BadSetting, "the model has several outputs").help("use predict_all")),
        }
    }

    /// As [`Self::predict`], for every output of the model.
    ///
    /// # Errors
    /// Fails if the data cannot be read or does not fit the model, or a worker is lost.
    pub fn predict_all(&self, data: impl Into<Data>) -> Result<Vec<Column>> {
        let predicted = data.into().batched(None, None).and_then(|batched| self.predict_in_turns(&batched.dataset));
        if let (Err(error), Some(workers)) = (&predicted, self.strategy().workers()) {
            workers.group().abort(error.clone());
        }
        let joined = predicted?;
        if joined.is_empty() {
            return Err(nothing("predict"));
        }
        joined.into_iter().map(|(numbers, dims)| Column::f32(numbers).with_row_shape(dims)).collect()
    }

    /// Predicts turn by turn: in each, every replica of every worker has a batch.
    fn predict_in_turns(&self, dataset: &Dataset) -> Result<Vec<Output>> {
        let strategy = self.strategy();
        let (rank, size) = strategy.workers().map_or((0, 1), |workers| (workers.rank(), workers.size()));
        let replicas = strategy.local_replicas();
        let (mut batches, mut joined) = (dataset.iter()?, Vec::new());
        loop {
            self.check_interrupted()?;
            let (mut taken, mut own) = (0, Vec::new());
            while taken < size * replicas {
                let Some(batch) = batches.next().transpose()? else { break };
                if taken / replicas == rank {
                    own.push((taken % replicas, batch));
                }
                taken += 1;
            }
            for outputs in self.gather(taken, self.predict_each(own)?)? {
                joined.resize_with(outputs.len(), Output::default);
                for ((numbers, dims), (more, of_row)) in joined.iter_mut().zip(outputs) {
                    *dims = of_row;
                    numbers.extend(more);
                }
            }
            if taken < size * replicas {
                return Ok(joined);
            }
        }
    }

    /// Returns the outputs for the batch of each replica.
    fn predict_each(&self, batches: Vec<(usize, Batch)>) -> Result<Vec<Vec<Output>>> {
        let mapping = &self.mapping;
        let computed = self.model.compute(PerReplica::new(batches), |replica, batch: Batch| {
            let model = replica.model().clone().no_grad();
            let outputs = model.call(mapping.inputs(&batch, replica.device())?, Mode::Inference)?;
            let of_rows = outputs.into_iter().map(|output| {
                let dims = output.dims().split_off(1);
                Ok((output.numbers()?, dims))
            });
            of_rows.collect::<Result<Vec<Output>>>()
        })?;
        Ok(computed.0.into_parts().into_iter().map(|(_, outputs)| outputs).collect())
    }

    /// Returns the outputs of all workers in a turn, in the order of their batches.
    fn gather(&self, taken: usize, own: Vec<Vec<Output>>) -> Result<Vec<Vec<Output>>> {
        let Some(workers) = self.strategy().workers() else { return Ok(own) };
        let malformed = |error| Error::new(Code::BadMessage, "a worker's predictions are malformed").because(error);
        let own = postcard::to_stdvec(&(taken as u64, own)).map_err(malformed)?;
        let mut all = Vec::new();
        for bytes in workers.patiently(|group| group.all_gather(&own))? {
            let (theirs, outputs): (u64, Vec<Vec<Output>>) = postcard::from_bytes(&bytes).map_err(malformed)?;
            if theirs != taken as u64 {
                return Err(Error::new(Code::DataMissing, "workers predict different data")
                    .because(format!("one has {theirs} batches where this one has {taken}"))
                    .help("give every worker all of the data: the batches are divided among them"));
            }
            all.extend(outputs);
        }
        Ok(all)
    }

    /// Returns the outputs for one batch.
    ///
    /// # Errors
    /// Fails if the batch does not fit the model.
    pub fn predict_on_batch(&self, batch: &Batch) -> Result<Vec<DynTensor>> {
        self.module().clone().no_grad().call(self.inputs(batch)?, Mode::Inference)
    }

    /// Returns the model's inputs for a batch.
    pub(crate) fn inputs(&self, batch: &Batch) -> Result<Vec<DynTensor>> {
        self.mapping.inputs(batch, self.strategy().home())
    }
}
