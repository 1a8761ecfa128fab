//! What every preprocessing layer can do.

use phalanx_base::Result;
use phalanx_data::{Batch, Column};

/// A function of one column, made ready beforehand: by its settings, or by having been adapted to data.
///
/// Layers are shared by threads and hold no state that a call changes, so one may be moved into
/// [`Dataset::map`](phalanx_data::Dataset::map) and run on many threads.
pub trait PreprocessingLayer: Send + Sync {
    /// The layer's output for a column, row for row.
    ///
    /// # Errors
    /// When the column has values or a shape that the layer does not take.
    fn call(&self, column: &Column) -> Result<Column>;

    /// The batch with one column replaced by the layer's output for it.
    ///
    /// # Errors
    /// When there is no such column, or as [`PreprocessingLayer::call`].
    fn apply(&self, batch: &Batch, column: &str) -> Result<Batch> {
        let at = |error: phalanx_base::Error| error.at(format!("column {column:?}"));
        let output = self.call(batch.column(column)?).map_err(at)?;
        batch.with_column(column, output)
    }
}
