//! `predict`: a model's outputs.

use super::evaluate::nothing;
use super::{Compiled, Data};
use phalanx_base::{Code, Error, Result};
use phalanx_data::{Batch, Column};
use phalanx_nn::Network;
use phalanx_nn::model::{DynTensor, Mode};

impl<M: Network> Compiled<M> {
    /// Returns the output for each row, in order. Runs in this process only, in batches of 32 rows for arrays.
    ///
    /// # Errors
    /// Fails if the data cannot be read or does not fit the model, or the model has several outputs.
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
    /// Fails if the data cannot be read or does not fit the model.
    pub fn predict_all(&self, data: impl Into<Data>) -> Result<Vec<Column>> {
        let mut joined: Vec<(Vec<f32>, Vec<usize>)> = Vec::new();
        let model = self.module().clone().no_grad();
        for batch in data.into().batched(None, None)?.dataset.iter()? {
            let outputs = self.answer(&model, &batch?)?;
            joined.resize_with(outputs.len(), Default::default);
            for ((numbers, dims), output) in joined.iter_mut().zip(outputs) {
                *dims = output.dims().split_off(1);
                numbers.extend(output.numbers()?);
            }
        }
        if joined.is_empty() {
            return Err(nothing("predict"));
        }
        joined.into_iter().map(|(numbers, dims)| Column::f32(numbers).with_row_shape(dims)).collect()
    }

    /// Returns the outputs for one batch.
    ///
    /// # Errors
    /// Fails if the batch does not fit the model.
    pub fn predict_on_batch(&self, batch: &Batch) -> Result<Vec<DynTensor>> {
        self.answer(&self.module().clone().no_grad(), batch)
    }

    /// Returns the model's inputs for a batch.
    pub(crate) fn inputs(&self, batch: &Batch) -> Result<Vec<DynTensor>> {
        self.mapping.inputs(batch, self.strategy().home())
    }

    fn answer(&self, model: &M, batch: &Batch) -> Result<Vec<DynTensor>> {
        model.call(self.inputs(batch)?, Mode::Inference)
    }
}
