//! Ids as they are, or as rows of ones and counts: the `output_mode` of Keras' layers.

use crate::layout::{Rows, in_layout_of, in_shape, matrix};
use phalanx_base::Result;
use phalanx_data::{Column, Values};

/// What a layer makes of ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputMode {
    /// The ids themselves.
    #[default]
    Int,
    /// For every id a row of zeros with a one at its place.
    OneHot,
    /// For every row of ids one row of zeros with ones at their places.
    MultiHot,
    /// For every row of ids one row that says how often each occurred.
    Count,
}

/// Turns one id per value of `like` into the output of a layer with `depth` ids.
///
/// Ids outside `0..depth` leave no trace in the modes of zeros and ones, as in Keras: that is how masks are dropped.
/// A column of one value per row counts as rows of one value each.
pub(crate) fn encode(ids: Vec<i64>, like: &Column, mode: OutputMode, depth: usize) -> Result<Column> {
    match mode {
        OutputMode::Int => in_layout_of(like, Values::I64(ids)),
        OutputMode::OneHot => one_hot(&ids, like, depth),
        OutputMode::MultiHot => per_row(&ids, like, depth, None, |cell, _| *cell = 1.0),
        OutputMode::Count => per_row(&ids, like, depth, None, |cell, weight| *cell += weight),
    }
}

/// [`OutputMode::Count`] where every id counts as much as its weight says.
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
    // A last dimension of 1 becomes the one-hot dimension, any other stays before it.
    let shape = like.row_shape();
    let kept = if shape.last() == Some(&1) { &shape[..shape.len() - 1] } else { shape };
    in_shape(like, Values::F32(values), kept.iter().copied().chain([depth]).collect())
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
