//! The trait of preprocessing layers.

use phalanx_base::Result;
use phalanx_data::{Batch, Column};

/// A function of one column, configured by settings or adapted to data beforehand.
///
/// A call changes no state, so a layer can be moved into [`Dataset::map`](phalanx_data::Dataset::map) and run on many
/// threads.
pub trait PreprocessingLayer: Send + Sync {
    /// Returns the layer's output for a column, row by row.
    ///
    /// # Errors
    /// If the layer does not accept the values or the shape of the column.
    fn call(&self, column: &Column) -> Result<Column>;

    /// Returns the batch with a column replaced by the layer's output for it.
    ///
    /// # Errors
    /// If there is no such column, or as [`PreprocessingLayer::call`].
    fn apply(&self, batch: &Batch, column: &str) -> Result<Batch> {
        let at = |error: phalanx_base::Error| error.at(format!("column {column:?}"));
        let output = self.call(batch.column(column)?).map_err(at)?;
        batch.with_column(column, output)
    }
}
