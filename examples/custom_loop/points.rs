//! The training data of the custom loops.

use phalanx::data::{Batch, Column, Dataset};

/// Returns points of the unit square; the label is 1 above the diagonal.
pub(crate) fn points() -> phalanx::Result<Dataset> {
    let xs: Vec<f32> = (0..400).map(|i| (i as f32 * 0.618_034).fract()).collect();
    let ys = xs.chunks_exact(2).map(|point| f32::from(u8::from(point[1] > point[0]))).collect();
    let batch = Batch::new([("x", Column::f32(xs).with_row_shape([2])?), ("y", Column::f32(ys))])?;
    Ok(Dataset::from_tensor_slices(batch))
}
