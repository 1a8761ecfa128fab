//! Columns as a TensorFlow graph, for the inputs of exported models.

mod categorical;
mod inputs;
mod tensor;
mod time;

pub use inputs::GraphInputs;
pub use tensor::GraphTensor;

use crate::columns::function::{NumericFunction, NumericFunctions};
use crate::columns::kind::{Categorical, ColumnKind, Numeric};
use crate::columns::{Combiner, FeatureColumn, TimePart, TimeUnit};
use inputs::GraphFeature;
use phalanx_base::{Code, Error, Result};
use phalanx_formats::saved_model::{Combiner as Bag, GraphBuilder, Output, Sparse};
use std::sync::Arc;

/// The maximum number of ids in a weighted one-hot column of a graph, which needs a square matrix.
const LARGEST_SQUARE: usize = 4096;

/// The ids of a column in a graph.
#[derive(Clone, Copy, Debug)]
pub struct GraphIds {
    ids: Sparse<i64>,
    weights: Option<Output<f32>>,
}

impl GraphIds {
    /// Returns the places of the ids in `keys`, a sorted vector of `count` ids of which the last stands for all ids that are
    /// not in it. Negative ids stay, since they do not count.
    #[must_use]
    pub fn places(&self, graph: &mut GraphBuilder, keys: Output<i64>, count: usize) -> Self {
        let ids = self.ids.values;
        let place = graph.lower_bound(keys, ids);
        let found = graph.gather(keys, place);
        let (known, last) = (graph.equal(found, ids), graph.scalar(count as i64 - 1));
        let place = graph.select(known, place, last);
        let zero = graph.scalar(0_i64);
        let negative = graph.less(ids, zero);
        Self { ids: self.ids.with_values(graph.select(negative, ids, place)), ..*self }
    }

    /// Returns the combined rows of `table` for the ids of each example, zeros for an example without ids.
    pub fn bag(&self, graph: &mut GraphBuilder, table: Output<f32>, combiner: Combiner) -> Output<f32> {
        let combiner = match combiner {
            Combiner::Sum => Bag::Sum,
            Combiner::Mean => Bag::Mean,
            Combiner::Sqrtn => Bag::SqrtN,
        };
        match self.weights {
            Some(weights) => graph.weighted_embedding_bag(table, self.ids, weights, combiner),
            None => graph.embedding_bag(table, self.ids, combiner),
        }
    }
}

impl GraphInputs {
    /// Returns a dense column `[rows, width]`: numbers, one-hot buckets or an indicator.
    ///
    /// # Errors
    /// If the column is not dense, or a graph cannot express it.
    pub fn dense(&self, graph: &mut GraphBuilder, column: &FeatureColumn) -> Result<Output<f32>> {
        match column.checked()? {
            ColumnKind::Numeric(numeric) => {
                let (values, missing) = self.numeric(graph, numeric)?;
                Ok(match missing.filter(|_| numeric.missing_indicator) {
                    Some(missing) => {
                        let indicators = graph.cast::<bool, f32>(missing);
                        graph.concat(&[values, indicators], 1)
                    }
                    None => values,
                })
            }
            ColumnKind::Categorical(categorical @ Categorical::Bucketized { .. }) => self.one_hot(graph, categorical),
            ColumnKind::Indicator(categorical) => self.one_hot(graph, categorical),
            _ => Err(not_in_a_graph(&column.name(), "it is not dense")),
        }
    }

    /// Returns the ids of a categorical column, or of the column of an embedding.
    ///
    /// # Errors
    /// As [`Self::dense`].
    pub fn ids(&self, graph: &mut GraphBuilder, column: &FeatureColumn) -> Result<GraphIds> {
        match column.checked()? {
            ColumnKind::Categorical(categorical) => self.categorical(graph, categorical),
            ColumnKind::Embedding(embedding) => self.categorical(graph, &embedding.column),
            _ => Err(not_in_a_graph(&column.name(), "it yields no ids")),
        }
    }

    /// The values of a numeric column `[rows, values]`, and which of them are missing if that is marked.
    fn numeric(&self, graph: &mut GraphBuilder, numeric: &Numeric) -> Result<(Output<f32>, Option<Output<bool>>)> {
        numeric.check_adapted()?;
        let values = match (numeric.time, self.fed(&numeric.key)?) {
            (Some(time), _) => self.time_number(graph, &numeric.key, time)?,
            (None, GraphFeature::Floats(values)) => values,
            (None, GraphFeature::Integers(values)) => graph.cast(values),
            _ => return Err(not_in_a_graph(&numeric.key, "it is read with any number of values")),
        };
        let elements = numeric.elements();
        let mut values = graph.reshape(values, &[-1, elements as i32]);
        let mut missing = None;
        if numeric.marks_missing() {
            let is_nan = graph.not_equal(values, values);
            let defaults: Vec<f32> = (0..elements).map(|element| numeric.default_of(element)).collect();
            let defaults = graph.constant(&[1, elements], &defaults);
            values = graph.select(is_nan, defaults, values);
            missing = Some(is_nan);
        }
        Ok((functions(graph, &numeric.key, values, &numeric.functions)?, missing))
    }

    /// The part of one timestamp per row as a number `[rows, 1]`, NaN for a row without one.
    fn time_number(
        &self,
        graph: &mut GraphBuilder,
        key: &Arc<str>,
        (part, unit): (TimePart, TimeUnit),
    ) -> Result<Output<f32>> {
        let parts = self.categorical(graph, &Categorical::Time { key: key.clone(), part, unit })?.ids;
        // Sums over the timestamps of a row: of their parts, and of their number, since a batch may have none at all.
        let (numbers, zero) = (graph.cast::<i64, f32>(parts.values), graph.scalar(0.0_f32));
        let dense = graph.to_dense(parts.with_values(numbers), zero);
        let sum = graph.sum(dense, &[1], true);
        let ones = graph.equal(numbers, numbers);
        let ones = graph.cast::<bool, f32>(ones);
        let dense = graph.to_dense(parts.with_values(ones), zero);
        let count = graph.sum(dense, &[1], true);
        let (one, nan) = (graph.scalar(1.0_f32), graph.scalar(f32::NAN));
        let is_one = graph.equal(count, one);
        Ok(graph.select(is_one, sum, nan))
    }

    /// Counts of ids, or sums of their weights.
    fn one_hot(&self, graph: &mut GraphBuilder, categorical: &Categorical) -> Result<Output<f32>> {
        let buckets = categorical.num_buckets()?;
        let ids = self.categorical(graph, categorical)?;
        if ids.weights.is_none() {
            let none = graph.scalar(-1_i64);
            let dense = graph.to_dense(ids.ids, none);
            let depth = i32::try_from(buckets);
            let depth = depth.map_err(|_| not_in_a_graph(&categorical.name(), "it has too many ids to be one-hot"))?;
            let hot = graph.one_hot(dense, depth);
            let counts = graph.sum(hot, &[1], false);
            return Ok(graph.reshape(counts, &[-1, depth]));
        }
        if buckets > LARGEST_SQUARE {
            let why = format!("it is one-hot with weights over {buckets} ids, of {LARGEST_SQUARE} at most");
            return Err(not_in_a_graph(&categorical.name(), &why));
        }
        let mut identity = vec![0.0_f32; buckets * buckets];
        (0..buckets).for_each(|at| identity[at * buckets + at] = 1.0);
        let identity = graph.constant(&[buckets, buckets], &identity);
        Ok(ids.bag(graph, identity, Combiner::Sum))
    }
}

/// The functions of a numeric column, in order.
fn functions(
    graph: &mut GraphBuilder,
    key: &str,
    mut values: Output<f32>,
    functions: &NumericFunctions,
) -> Result<Output<f32>> {
    for function in &functions.0 {
        values = match function {
            NumericFunction::Log1p => graph.log1p(values),
            NumericFunction::Sqrt => graph.sqrt(values),
            NumericFunction::Clip { min, max } => {
                let (min, max) = (graph.scalar(*min), graph.scalar(*max));
                let raised = graph.maximum(values, min);
                graph.minimum(raised, max)
            }
            NumericFunction::Scale { subtract, divide } => {
                let (subtract, divide) = (graph.scalar(*subtract), graph.scalar(*divide));
                let shifted = graph.sub(values, subtract);
                graph.div(shifted, divide)
            }
            // An adapted column has none.
            NumericFunction::Standardize => values,
            NumericFunction::Custom(function) => {
                let (scale, shift) = line(&**function).ok_or_else(|| {
                    not_in_a_graph(key, "its normalizer_fn is not linear, a·x + b")
                        .help("use a linear one, functions such as log1p, or transform the input before it is served")
                })?;
                let (scale, shift) = (graph.scalar(scale), graph.scalar(shift));
                let scaled = graph.mul(values, scale);
                graph.add(scaled, shift)
            }
        };
    }
    Ok(values)
}

/// The scale and shift of a function, if it is linear at all sampled points.
fn line(function: impl Fn(f32) -> f32) -> Option<(f32, f32)> {
    // A distant point gives the slope more digits; all sampled points must lie on the line.
    let shift = function(0.0);
    let scale = (function(1024.0) - shift) / 1024.0;
    let samples = [-1000.0_f32, -37.5, -1.0, -1e-3, 1e-3, 0.5, 1.0, 3.0, 17.25, 400.0, 12_345.0];
    let fits = |x: &f32| {
        let (expected, found) = (scale * x + shift, function(*x));
        (expected - found).abs() <= 1e-5 * expected.abs().max(shift.abs()).max((scale * x).abs())
    };
    (scale.is_finite() && shift.is_finite() && samples.iter().all(fits)).then_some((scale, shift))
}

pub(super) fn not_in_a_graph(column: &str, why: &str) -> Error {
    Error::new(Code::BadSetting, format!("column {column:?} cannot be exported")).because(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_functions_are_detected() {
        let of = |f: fn(f32) -> f32| line(f);
        let (scale, shift) = of(|x| x / 100.0).unwrap();
        assert!((scale - 0.01).abs() < 1e-8 && shift == 0.0);
        let (scale, shift) = of(|x| (x - 40.0) / 12.0).unwrap();
        assert!((scale - 1.0 / 12.0).abs() < 1e-6 && (shift + 40.0 / 12.0).abs() < 1e-5);
        assert!(of(f32::ln_1p).is_none() && of(|x| x.max(0.0)).is_none() && of(|x| x * x).is_none());
    }
}
