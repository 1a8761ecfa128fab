//! `Discretization`: numbers to bins.

use super::quantiles::Summary;
use super::setting;
use crate::adapt::each_batch;
use crate::encode::{OutputMode, encode, encode_graph, encoded_shape};
use crate::numbers::each_f32;
use crate::transform::bucket;
use crate::{GraphTensor, PreprocessingLayer};
use phalanx_base::Result;
use phalanx_data::{Column, Dataset};
use phalanx_formats::saved_model::GraphBuilder;

/// Keras' `Discretization`: numbers to bins, separated by given boundaries or by quantiles of the data.
///
/// ```
/// use phalanx_data::Column;
/// use phalanx_feature::{Discretization, PreprocessingLayer};
/// let layer = Discretization::new([0.0, 1.0, 2.0])?;
/// assert_eq!(layer.call(&Column::f32(vec![-1.5, 1.0, 3.4, 0.5]))?.as_i64()?, [0, 2, 3, 1]);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Discretization {
    boundaries: Vec<f32>,
    output_mode: OutputMode,
}

impl Discretization {
    const LAYER: &'static str = "Discretization";

    /// Returns a layer with these boundaries. The bin of a value is the number of boundaries up to and including it.
    ///
    /// # Errors
    /// If the boundaries are not in increasing order.
    pub fn new(bin_boundaries: impl Into<Vec<f32>>) -> Result<Self> {
        let boundaries = bin_boundaries.into();
        if !boundaries.is_sorted() || boundaries.iter().any(|boundary| boundary.is_nan()) {
            return Err(setting(Self::LAYER, "its boundaries must be in increasing order"));
        }
        Ok(Self { boundaries, output_mode: OutputMode::Int })
    }

    /// Returns a layer whose bins hold about the same number of values of a dataset's column: Keras' `num_bins` and
    /// `adapt`, with its error tolerance of 0.01.
    ///
    /// As in Keras, the estimate depends slightly on the batch size; unbatched rows are read 1024 at a time.
    ///
    /// # Errors
    /// If reading fails, there is no such numeric column, or `num_bins` is 0.
    pub fn adapt(num_bins: usize, data: &Dataset, column: &str) -> Result<Self> {
        let mut learner = Learner::new(0.01)?;
        each_batch(data, |batch| learner.add(batch.column(column)?))?;
        learner.finish(num_bins)
    }

    /// Like [`Discretization::adapt`], over columns in memory, one per batch, and with the tolerance `epsilon`.
    ///
    /// # Errors
    /// If a column is not numeric, `num_bins` is 0, or `epsilon` is not between 0 and 1.
    pub fn adapt_columns<'a>(
        num_bins: usize,
        epsilon: f64,
        columns: impl IntoIterator<Item = &'a Column>,
    ) -> Result<Self> {
        let mut learner = Learner::new(epsilon)?;
        columns.into_iter().try_for_each(|column| learner.add(column))?;
        learner.finish(num_bins)
    }

    setters! {
        /// Sets the output: bins, ones or counts.
        output_mode: OutputMode => output_mode;
    }

    /// Returns the boundaries.
    #[must_use]
    pub fn bin_boundaries(&self) -> &[f32] {
        &self.boundaries
    }
}

impl PreprocessingLayer for Discretization {
    fn call(&self, column: &Column) -> Result<Column> {
        let mut ids = Vec::new();
        each_f32(column, |value| ids.push(bucket(value, &self.boundaries) as i64))?;
        encode(ids, column, self.output_mode, self.boundaries.len() + 1)
    }

    fn kind(&self) -> &'static str {
        Self::LAYER
    }

    fn output_shape(&self, input: &[usize]) -> Result<Vec<usize>> {
        Ok(encoded_shape(input, self.output_mode, self.boundaries.len() + 1))
    }

    fn graph(&self, graph: &mut GraphBuilder, input: GraphTensor, dims: &[usize]) -> Result<GraphTensor> {
        let numbers = input.floats(graph)?;
        let bins = graph.bucketize(numbers, &self.boundaries);
        let bins = graph.cast::<i32, i64>(bins);
        encode_graph(graph, bins, dims, self.output_mode, self.boundaries.len() + 1)
    }
}

struct Learner {
    summary: Summary,
    epsilon: f64,
}

impl Learner {
    fn new(epsilon: f64) -> Result<Self> {
        // A summary has 1/epsilon values, so a lower bound limits its memory.
        if !(1e-6..1.0).contains(&epsilon) {
            let why = format!("its error tolerance is {epsilon}, it must lie between a millionth and 1");
            return Err(setting(Discretization::LAYER, why));
        }
        Ok(Self { summary: Summary::default(), epsilon })
    }

    fn add(&mut self, column: &Column) -> Result<()> {
        let mut values = Vec::new();
        each_f32(column, |value| values.push(value))?;
        self.summary.add(values, self.epsilon);
        Ok(())
    }

    fn finish(self, num_bins: usize) -> Result<Discretization> {
        if num_bins == 0 {
            return Err(setting(Discretization::LAYER, "num_bins is 0"));
        }
        Discretization::new(self.summary.boundaries(num_bins))
    }
}
