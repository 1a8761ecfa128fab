//! `predict`: a model's answers.

use super::evaluate::nothing;
use super::{Compiled, Data};
use phalanx_base::{Code, Error, Result};
use phalanx_data::{Batch, Column};
use phalanx_nn::Network;
use phalanx_nn::model::{Mode, Value};

impl<M: Network> Compiled<M> {
    /// The output for each row, in the order of the data, in this process alone. Arrays are taken 32 rows at a time.
    ///
    /// # Errors
    /// When the data cannot be read or does not fit the model, or the model has several outputs.
    pub fn predict(&self, data: impl Into<Data>) -> Result<Column> {
        let mut outputs = self.predict_all(data)?;
        match (outputs.pop(), outputs.is_empty()) {
            (Some(output), true) => Ok(output),
            _ => Err(Error::new(Code::BadSetting, "the model has several outputs").help("use predict_all")),
        }
    }

    /// The same for every output of the model.
    ///
    /// # Errors
    /// When the data cannot be read or does not fit the model.
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

    /// The outputs for the rows of one batch.
    ///
    /// # Errors
    /// When it does not fit the model.
    pub fn predict_on_batch(&self, batch: &Batch) -> Result<Vec<Value>> {
        self.answer(&self.module().clone().no_grad(), batch)
    }

    /// A batch as the model takes it.
    pub(crate) fn inputs(&self, batch: &Batch) -> Result<Vec<Value>> {
        self.feed.inputs(batch, self.strategy().home())
    }

    fn answer(&self, model: &M, batch: &Batch) -> Result<Vec<Value>> {
        model.call(self.inputs(batch)?, Mode::Inference)
    }
}
