//! The `output_mode` of Keras' layers: ids, one-hot rows, multi-hot rows or counts.

use crate::layout::{Rows, in_layout_of, in_shape, matrix};
use phalanx_base::Result;
use phalanx_data::{Column, Values};

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
    // A last dimension of 1 becomes the one-hot dimension; any other is kept before it.
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
