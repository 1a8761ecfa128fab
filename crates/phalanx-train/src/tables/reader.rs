//! Rows for a program that looks them up while it computes a step.

use super::ServerRows;
use crate::{RowValues, TableId};
use phalanx_base::Result;
use std::sync::Arc;

/// Reads rows from the servers, also while a step of the session is computed: see
/// [`Session::row_reader`](crate::Session::row_reader).
#[derive(Clone)]
pub struct RowReader(Arc<ServerRows>);

impl RowReader {
    pub(crate) fn new(rows: Arc<ServerRows>) -> Self {
        Self(rows)
    }

    /// Returns the unique ids in the order of the rows, and the rows. Rows that do not exist yet have their first values.
    ///
    /// # Errors
    /// When a server does not answer.
    pub fn read(&self, TableId(table): TableId, ids: &[i64]) -> Result<(Vec<i64>, RowValues)> {
        self.0.read(table, ids)
    }
}
