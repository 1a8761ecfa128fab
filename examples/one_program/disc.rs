//! The data: points of a square, some of which lie in a disc.

use phalanx::data::{Batch, Column, Dataset};

pub(crate) const POINTS: usize = 1920;

/// Returns the points with their class: 1 in the disc, else 0.
pub(crate) fn points() -> phalanx::Result<Dataset> {
    let at = |i: usize, step: f32| 2.0 * (i as f32 * step).fract() - 1.0;
    let points: Vec<[f32; 2]> = (0..POINTS).map(|i| [at(i, 0.754_877_7), at(i, 0.569_840_3)]).collect();
    let classes = points.iter().map(|[x, y]| i64::from(x.hypot(*y) < 0.75)).collect();
    let x = Column::f32(points.into_iter().flatten().collect()).with_row_shape([2])?;
    Ok(Dataset::from_tensor_slices(Batch::new([("x", x), ("y", Column::i64(classes))])?.with_label("y")?))
}
