//! A table's rows inside of a step.

use crate::to_bytes;
use burn::tensor::{Device, Gradients, Int, Tensor, TensorData};
use bytes::Bytes;
use phalanx_base::Result;

/// The unique rows that a batch needs of one table, as a leaf of the step's graph: the gradient then has exactly
/// their shape, and duplicates are summed by the library.
#[derive(Clone, Debug)]
pub struct Rows {
    unique: Tensor<2>,
    positions: Tensor<1, Int>,
}

impl Rows {
    /// Rows of `dim` numbers, and for each id of the batch which of them it means.
    #[must_use]
    pub fn new(unique: Vec<f32>, dim: usize, positions: &[u32], device: &Device) -> Self {
        let count = unique.len() / dim;
        let unique = Tensor::from_data(TensorData::new(unique, [count, dim]), device).require_grad();
        let positions: Vec<i32> = positions.iter().map(|&at| at as i32).collect();
        let length = positions.len();
        let positions = Tensor::from_data(TensorData::new(positions, [length]), device);
        Self { unique, positions }
    }

    /// One row for each id of the batch, in its order: shape `[ids, dim]`.
    #[must_use]
    pub fn lookup(&self) -> Tensor<2> {
        self.unique.clone().select(0, self.positions.clone())
    }

    /// The summed gradients of the unique rows; `None` if the loss does not depend on them.
    ///
    /// # Errors
    /// When they are not 32-bit floats.
    pub fn gradients(&self, gradients: &mut Gradients) -> Result<Option<Bytes>> {
        self.unique.grad_remove(gradients).map(to_bytes).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gradients_of_repeated_ids_are_summed_into_their_row() {
        let device = crate::default_device();
        let rows = Rows::new(vec![1.0, 2.0, 3.0, 4.0], 2, &[0, 1, 0], &device);
        let seen = rows.lookup();
        assert_eq!(seen.clone().into_data().as_slice::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0, 1.0, 2.0]);
        let mut gradients = seen.sum().backward();
        let bytes = rows.gradients(&mut gradients).unwrap().unwrap();
        let mut summed = [0.0; 4];
        phalanx_base::read_f32s(&bytes, &mut summed);
        assert_eq!(summed, [2.0, 2.0, 1.0, 1.0]);
    }
}
