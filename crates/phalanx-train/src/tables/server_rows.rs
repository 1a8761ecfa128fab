//! Rows as the servers have them now.

use crate::RowValues;
use phalanx_base::{Code, Error, Result};
use phalanx_nn::Rows;
use phalanx_nn::burn::tensor::Device;
use phalanx_nn::model::RowSource;
use phalanx_ps::client::{RemoteModel, RowSet, UpdateMode};
use phalanx_ps::{Client, Layout};
use std::sync::{Arc, Mutex, PoisonError};

/// Fetches rows from the servers when a model needs them, unless a step has fetched them in advance.
pub(crate) struct ServerRows {
    client: Arc<Client>,
    remote: Mutex<RemoteModel>,
    mode: Mutex<UpdateMode>,
    /// The rows that a step has, or that this task holds.
    given: Mutex<Option<Arc<dyn RowSource>>>,
}

impl ServerRows {
    pub(crate) fn new(client: Arc<Client>, layout: Layout, mode: UpdateMode) -> Result<Self> {
        let remote = Mutex::new(RemoteModel::find(&client, layout)?);
        Ok(Self { client, remote, mode: Mutex::new(mode), given: Mutex::default() })
    }

    /// Sets which rounds are closed: what is read from now on includes them.
    pub(crate) fn set_mode(&self, mode: UpdateMode) {
        *self.mode.lock().unwrap_or_else(PoisonError::into_inner) = mode;
    }

    /// Gives models these rows instead of those of the servers; `None` ends that.
    pub(crate) fn give(&self, rows: Option<Arc<dyn RowSource>>) {
        *self.given.lock().unwrap_or_else(PoisonError::into_inner) = rows;
    }

    /// Reads the unique rows of these ids. Returns the unique ids, too.
    pub(crate) fn read(&self, table: usize, ids: &[i64]) -> Result<(Vec<i64>, RowValues)> {
        let mode = *self.mode.lock().unwrap_or_else(PoisonError::into_inner);
        let mut remote = self.remote.lock().unwrap_or_else(PoisonError::into_inner);
        let dim = remote.layout().tables().get(table).map(|table| table.dim);
        let dim = dim.ok_or_else(|| Error::new(Code::NoSuchVariable, "the model has no such table"))?;
        let set = RowSet::of(remote.layout(), table, ids);
        let values = self.client.read_rows(&mut remote, std::slice::from_ref(&set), mode)?.pop();
        let values = values.ok_or_else(|| Error::new(Code::Internal, "no rows were read"))?;
        Ok((set.unique().to_vec(), RowValues { values, dim, positions: set.positions().to_vec() }))
    }

    /// Reads all rows of a table, in the order of their ids.
    pub(crate) fn read_all(&self, table: usize, rows: usize) -> Result<Vec<f32>> {
        /// Rows of one request, so that its lists of ids stay small.
        const ROWS: usize = 1 << 16;
        let mut values = Vec::new();
        for first in (0..rows).step_by(ROWS) {
            let ids: Vec<i64> = (first..rows.min(first + ROWS)).map(|id| id as i64).collect();
            // Unique ids keep their order.
            values.extend(self.read(table, &ids)?.1.values);
        }
        Ok(values)
    }
}

impl RowSource for ServerRows {
    fn rows(&self, table: usize, ids: &[i64], device: &Device) -> Result<Rows> {
        let given = self.given.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(given) = given {
            return given.rows(table, ids, device);
        }
        let (_, RowValues { values, dim, positions }) = self.read(table, ids)?;
        Ok(Rows::fixed(values, dim, &positions, device))
    }
}
