//! The rows of a step that were fetched with its values.

use crate::RowValues;
use phalanx_base::{Code, Error, Result};
use phalanx_nn::burn::tensor::{Device, Gradients};
use phalanx_nn::model::RowSource;
use phalanx_nn::{HostBuffer, Rows};
use std::sync::{Mutex, PoisonError};

/// The rows of each table, in the order in which the model looks them up.
pub(crate) struct PrefetchedRows {
    tables: Vec<Rows>,
    /// For each table, the ids that the model has looked up.
    taken: Mutex<Vec<usize>>,
}

impl PrefetchedRows {
    pub(crate) fn new(rows: Vec<RowValues>, device: &Device) -> Self {
        let rows = rows.into_iter().map(|of| Rows::new(of.values, of.dim, &of.positions, device));
        let tables: Vec<Rows> = rows.collect();
        Self { taken: Mutex::new(vec![0; tables.len()]), tables }
    }

    /// Returns the gradients of the unique rows of each table, `None` where the loss does not depend on them.
    pub(crate) fn gradients(&self, gradients: &mut Gradients) -> Result<Vec<Option<HostBuffer>>> {
        self.tables.iter().map(|rows| rows.gradients(gradients)).collect()
    }
}

impl RowSource for PrefetchedRows {
    fn rows(&self, table: usize, ids: &[i64], _: &Device) -> Result<Rows> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(rows), Some(taken)) = (self.tables.get(table), taken.get_mut(table)) else {
            return Err(Error::new(Code::Internal, "a step looks up a table whose rows it did not ask for"));
        };
        let first = std::mem::replace(taken, *taken + ids.len());
        Ok(rows.part(first..first + ids.len()))
    }
}
