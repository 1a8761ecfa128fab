//! The trait of preprocessing layers.

use crate::GraphTensor;
use phalanx_base::{Code, Error, Result};
use phalanx_data::{Batch, Column, DType};
use phalanx_formats::saved_model::GraphBuilder;

/// A function of one column, configured by settings or adapted to data beforehand.
///
/// A call changes no state, so a layer can be moved into [`Dataset::map`](phalanx_data::Dataset::map) and run on many
/// threads. To be a layer of a model, it also tells the shape of its output, and its graph if the model is exported.
pub trait PreprocessingLayer: std::fmt::Debug + Send + Sync {
    /// Returns the layer's output for a column, row by row.
    ///
    /// # Errors
    /// If the layer does not accept the values or the shape of the column.
    fn call(&self, column: &Column) -> Result<Column>;

    /// Returns the type as shown in summaries, such as `StringLookup`.
    fn kind(&self) -> &'static str {
        "Preprocessing"
    }

    /// Returns the type of values that a model's input for this layer has, unless the model declares one.
    fn input_type(&self) -> DType {
        DType::F32
    }

    /// Returns the shape of its output for rows of this shape. By default it is the same.
    ///
    /// # Errors
    /// If it does not accept such rows, or is not adapted yet.
    fn output_shape(&self, input: &[usize]) -> Result<Vec<usize>> {
        Ok(input.to_vec())
    }

    /// Adds the layer to a TensorFlow graph; `dims` is the shape of the input's rows.
    ///
    /// # Errors
    /// If TensorFlow has no ops for it. By default it has none.
    fn graph(&self, graph: &mut GraphBuilder, input: GraphTensor, dims: &[usize]) -> Result<GraphTensor> {
        let _ = (graph, input, dims);
        Err(Error::new(Code::BadSetting, format!("a {} layer has no TensorFlow graph", self.kind()))
            .help("implement PreprocessingLayer::graph, or apply the layer before the model"))
    }

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
