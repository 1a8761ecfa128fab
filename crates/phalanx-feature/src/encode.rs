//! The `output_mode` of Keras' layers: ids, one-hot rows, multi-hot rows or counts.

use crate::GraphTensor;
use crate::layout::{Rows, in_layout_of, in_shape, matrix};
use phalanx_base::{Code, Error, Result};
use phalanx_data::{Column, Values};
use phalanx_formats::saved_model::{GraphBuilder, Output};

/// The form in which a layer outputs ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputMode {
    /// The ids themselves.
    #[default]
    Int,
    /// A one-hot row per id.
    OneHot,
    /// A multi-hot row per row of ids.
    MultiHot,
    /// The count of each id, per row of ids.
    Count,
}

/// Encodes one id per value of `like` as the output of a layer with `depth` ids.
///
/// As in Keras, all modes but [`OutputMode::Int`] drop ids outside `0..depth`, and thereby masks. A column of one value per
/// row counts as rows of one value each.
pub(crate) fn encode(ids: Vec<i64>, like: &Column, mode: OutputMode, depth: usize) -> Result<Column> {
    match mode {
        OutputMode::Int => in_layout_of(like, Values::I64(ids)),
        OutputMode::OneHot => one_hot(&ids, like, depth),
        OutputMode::MultiHot => per_row(&ids, like, depth, None, |cell, _| *cell = 1.0),
        OutputMode::Count => per_row(&ids, like, depth, None, |cell, weight| *cell += weight),
    }
}

/// Returns the shape of what [`encode`] returns for rows of this shape.
pub(crate) fn encoded_shape(input: &[usize], mode: OutputMode, depth: usize) -> Vec<usize> {
    match mode {
        OutputMode::Int => input.to_vec(),
        OutputMode::OneHot => one_hot_shape(input, depth),
        OutputMode::MultiHot | OutputMode::Count => vec![depth],
    }
}

/// [`encode`] in a graph, for ids in rows of shape `dims`.
pub(crate) fn encode_graph(
    graph: &mut GraphBuilder,
    ids: Output<i64>,
    dims: &[usize],
    mode: OutputMode,
    depth: usize,
) -> Result<GraphTensor> {
    if mode == OutputMode::Int {
        return Ok(GraphTensor::I64(ids));
    }
    let hot = i32::try_from(depth).map_err(|_| {
        Error::new(Code::BadSetting, format!("rows of {depth} ones cannot be exported"))
            .help("output ids, and look them up in an embedding")
    })?;
    let shape = encoded_shape(dims, mode, depth);
    let values = dims.iter().product::<usize>().max(1);
    let flat = graph.reshape(ids, &[-1, values as i32]);
    let ones = graph.one_hot(flat, hot);
    let encoded = match mode {
        OutputMode::MultiHot => graph.max(ones, &[1], false),
        OutputMode::Count => graph.sum(ones, &[1], false),
        OutputMode::Int | OutputMode::OneHot => ones,
    };
    let shape: Vec<i32> = std::iter::once(-1).chain(shape.iter().map(|&extent| extent as i32)).collect();
    Ok(GraphTensor::F32(graph.reshape(encoded, &shape)))
}

/// [`OutputMode::Count`] with weights.
pub(crate) fn count_weighted(ids: &[i64], weights: &[f32], like: &Column, depth: usize) -> Result<Column> {
    per_row(ids, like, depth, Some(weights), |cell, weight| *cell += weight)
}

fn one_hot(ids: &[i64], like: &Column, depth: usize) -> Result<Column> {
    let mut values = matrix(ids.len(), depth)?;
    for (index, &id) in ids.iter().enumerate() {
        if let Some(place) = place(id, depth) {
            values[index * depth + place] = 1.0;
        }
    }
    in_shape(like, Values::F32(values), one_hot_shape(like.row_shape(), depth))
}

/// A last dimension of 1 becomes the one-hot dimension; any other is kept before it.
fn one_hot_shape(shape: &[usize], depth: usize) -> Vec<usize> {
    let kept = if shape.last() == Some(&1) { &shape[..shape.len() - 1] } else { shape };
    kept.iter().copied().chain([depth]).collect()
}

fn per_row(
    ids: &[i64],
    like: &Column,
    depth: usize,
    weights: Option<&[f32]>,
    put: impl Fn(&mut f32, f32),
) -> Result<Column> {
    let rows = Rows::of(like);
    let mut values = matrix(rows.len(), depth)?;
    for row in 0..rows.len() {
        let cells = &mut values[row * depth..(row + 1) * depth];
        for index in rows.range(row) {
            if let Some(place) = place(ids[index], depth) {
                put(&mut cells[place], weights.map_or(1.0, |weights| weights[index]));
            }
        }
    }
    Column::f32(values).with_row_shape([depth])
}

#[inline]
fn place(id: i64, depth: usize) -> Option<usize> {
    usize::try_from(id).ok().filter(|&place| place < depth)
}
