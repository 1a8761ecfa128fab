//! `CategoryEncoding`: ids as ones or counts.

use super::setting;
use crate::encode::{OutputMode, count_weighted, encode, encode_graph, encoded_shape};
use crate::numbers::{each_f32, each_i64};
use crate::{GraphTensor, PreprocessingLayer};
use phalanx_base::{Code, Error, Result};
use phalanx_data::{Column, DType};
use phalanx_formats::saved_model::GraphBuilder;

/// Keras' `CategoryEncoding`: integers below `num_tokens` to rows of ones or counts.
///
/// ```
/// use phalanx_data::Column;
/// use phalanx_feature::{CategoryEncoding, OutputMode, PreprocessingLayer};
/// let ids = Column::i64(vec![0, 1, 0]).with_splits(vec![0, 1, 3])?;
/// let counts = CategoryEncoding::new(3).output_mode(OutputMode::Count).call(&ids)?;
/// assert_eq!(counts.as_f32()?, [1.0, 0.0, 0.0, 1.0, 1.0, 0.0]);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CategoryEncoding {
    num_tokens: usize,
    output_mode: OutputMode,
}

impl CategoryEncoding {
    const LAYER: &'static str = "CategoryEncoding";

    /// Returns a layer for ids below `num_tokens`, with [`OutputMode::MultiHot`].
    #[must_use]
    pub fn new(num_tokens: usize) -> Self {
        Self { num_tokens, output_mode: OutputMode::MultiHot }
    }

    setters! {
        /// Sets the output: one-hot, multi-hot or counts.
        output_mode: OutputMode => output_mode;
    }

    /// Returns weighted counts; the weights have the layout of the ids.
    ///
    /// # Errors
    /// If the mode is not [`OutputMode::Count`], the layouts differ, or as [`PreprocessingLayer::call`].
    pub fn call_weighted(&self, column: &Column, count_weights: &Column) -> Result<Column> {
        if self.output_mode != OutputMode::Count {
            return Err(setting(Self::LAYER, "weights are for counts only"));
        }
        self.check()?;
        let ids = self.ids(column)?;
        let mut weights = Vec::with_capacity(ids.len());
        each_f32(count_weights, |weight| weights.push(weight))?;
        if weights.len() != ids.len() || column.rows() != count_weights.rows() {
            let what = format!("{} ids have {} weights", ids.len(), weights.len());
            return Err(Error::new(Code::ShapeMismatch, what).help("give every id one weight"));
        }
        count_weighted(&ids, &weights, column, self.num_tokens)
    }

    fn check(&self) -> Result<()> {
        if self.output_mode == OutputMode::Int {
            return Err(setting(Self::LAYER, "its output is ones or counts").help("leave the layer out to keep ids"));
        }
        if self.num_tokens == 0 {
            return Err(setting(Self::LAYER, "num_tokens is 0"));
        }
        Ok(())
    }

    fn ids(&self, column: &Column) -> Result<Vec<i64>> {
        let mut ids = Vec::new();
        each_i64(column, |id| ids.push(id))?;
        match ids.iter().find(|&&id| usize::try_from(id).map_or(true, |id| id >= self.num_tokens)) {
            None => Ok(ids),
            Some(id) => {
                let what = format!("id {id} is not in the range from 0 to {}", self.num_tokens);
                Err(Error::new(Code::DataRow, what).help("raise num_tokens, or look values up in a vocabulary first"))
            }
        }
    }
}

impl PreprocessingLayer for CategoryEncoding {
    fn call(&self, column: &Column) -> Result<Column> {
        self.check()?;
        encode(self.ids(column)?, column, self.output_mode, self.num_tokens)
    }

    fn kind(&self) -> &'static str {
        Self::LAYER
    }

    fn input_type(&self) -> DType {
        DType::I64
    }

    fn output_shape(&self, input: &[usize]) -> Result<Vec<usize>> {
        self.check()?;
        Ok(encoded_shape(input, self.output_mode, self.num_tokens))
    }

    /// In a graph, ids out of range have no ones instead of being an error.
    fn graph(&self, graph: &mut GraphBuilder, input: GraphTensor, dims: &[usize]) -> Result<GraphTensor> {
        self.check()?;
        let ids = input.integers(graph)?;
        encode_graph(graph, ids, dims, self.output_mode, self.num_tokens)
    }
}
