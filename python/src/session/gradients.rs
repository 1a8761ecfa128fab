//! The gradients of a step, as Python hands them over.

use crate::error::Raise;
use phalanx_base::{Code, Error};
use phalanx_nn::HostBuffer;
use phalanx_train::{StepGradients, TableId};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;

/// The loss if it is known, the gradients of the variables, those of the rows that the step began with, and those of rows that
/// it has looked up since; and the learning rate, if it changes.
#[derive(FromPyObject)]
pub(crate) struct GivenGradients(
    Option<f32>,
    Vec<Option<PyBuffer<f32>>>,
    Vec<Option<PyBuffer<f32>>>,
    Vec<(usize, PyBuffer<i64>, PyBuffer<f32>)>,
    Option<f32>,
);

impl GivenGradients {
    /// Copies the numbers.
    pub(crate) fn read(self, py: Python<'_>, tables: &[TableId]) -> PyResult<StepGradients> {
        let numbers = |one: Option<PyBuffer<f32>>| -> PyResult<Option<HostBuffer>> {
            one.map(|one| one.to_vec(py).map(Into::into)).transpose()
        };
        let of_rows = |(index, ids, numbers): (usize, PyBuffer<i64>, PyBuffer<f32>)| {
            Ok((table(py, tables, index)?, ids.to_vec(py)?, numbers.to_vec(py)?.into()))
        };
        let Self(loss, dense, rows, looked_up, learning_rate) = self;
        Ok(StepGradients {
            loss,
            dense: dense.into_iter().map(numbers).collect::<PyResult<_>>()?,
            rows: rows.into_iter().map(numbers).collect::<PyResult<_>>()?,
            looked_up: looked_up.into_iter().map(of_rows).collect::<PyResult<_>>()?,
            learning_rate,
        })
    }
}

/// Returns the table with this number.
pub(crate) fn table(py: Python<'_>, tables: &[TableId], index: usize) -> PyResult<TableId> {
    let missing = || Error::new(Code::NoSuchVariable, format!("the model has no table number {index}"));
    tables.get(index).copied().ok_or_else(missing).or_raise(py)
}
