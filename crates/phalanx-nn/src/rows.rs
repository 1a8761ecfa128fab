//! The rows of an embedding table in a step.

use crate::{HostBuffer, lookup};
use burn::tensor::{Device, Gradients, IndexingUpdateOp, Int, Tensor, TensorData};
use phalanx_base::{Code, Combiner, Error, Result};

/// The unique rows of one table that a batch needs. They are a leaf of the computation graph, so the gradient has
/// exactly their shape and sums over repeated ids.
///
/// ```
/// use phalanx_nn::{Rows, default_device};
/// // Two unique rows; the batch has three ids, of which two are the same.
/// let rows = Rows::new(vec![1.0, 2.0, 3.0, 4.0], 2, &[0, 1, 0], &default_device());
/// let mut gradients = rows.lookup().sum().backward();
/// assert_eq!(*rows.gradients(&mut gradients)?.unwrap(), [2.0, 2.0, 1.0, 1.0]);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Rows {
    unique: Tensor<2>,
    positions: Tensor<1, Int>,
}

impl Rows {
    /// Takes unique rows of `dim` numbers and, for each id of the batch, the index of its row.
    #[must_use]
    pub fn new(unique: Vec<f32>, dim: usize, positions: &[u32], device: &Device) -> Self {
        let Self { unique, positions } = Self::fixed(unique, dim, positions, device);
        Self { unique: unique.require_grad(), positions }
    }

    /// As [`Self::new`], but without gradients: for inference.
    #[must_use]
    pub fn fixed(unique: Vec<f32>, dim: usize, positions: &[u32], device: &Device) -> Self {
        let count = unique.len() / dim;
        let unique = Tensor::from_data(TensorData::new(unique, [count, dim]), device);
        let positions: Vec<i32> = positions.iter().map(|&at| at as i32).collect();
        let length = positions.len();
        let positions = Tensor::from_data(TensorData::new(positions, [length]), device);
        Self { unique, positions }
    }

    /// Returns the rows of the ids `range` of the batch. They are the same leaf: gradients add up.
    #[must_use]
    pub fn part(&self, range: std::ops::Range<usize>) -> Self {
        Self { unique: self.unique.clone(), positions: self.positions.clone().slice(range) }
    }

    /// Returns the row of each id of the batch, in order: shape `[ids, dim]`.
    #[must_use]
    pub fn lookup(&self) -> Tensor<2> {
        self.unique.clone().select(0, self.positions.clone())
    }

    /// Returns one row per example: the rows of its ids, concatenated, followed by its `numbers`. The shape is
    /// `[examples, ids of an example × dim + numbers]`. Every example must have the same number of ids.
    ///
    /// ```
    /// use phalanx_nn::{Rows, burn::tensor::Tensor, default_device};
    ///
    /// let device = default_device();
    /// // Two examples with two ids each, of a table whose rows have one number.
    /// let rows = Rows::new(vec![5.0, 7.0, 9.0], 1, &[0, 1, 2, 0], &device);
    /// let joined = rows.concat(Tensor::from_floats([[0.1], [0.2]], &device))?;
    /// assert_eq!(joined.into_data().try_to_vec::<f32>().unwrap(), [5.0, 7.0, 0.1, 9.0, 5.0, 0.2]);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the number of ids is not a multiple of the number of examples in `numbers`.
    pub fn concat(&self, numbers: Tensor<2>) -> Result<Tensor<2>> {
        let (ids, [examples, _]) = (self.positions.dims()[0], numbers.dims());
        if examples == 0 || !ids.is_multiple_of(examples) {
            return Err(Error::new(Code::ShapeMismatch, "the ids cannot be divided evenly among the examples")
                .because(format!("there are {ids} ids and numbers for {examples} examples"))
                .help("give every example the same number of ids, or combine them first"));
        }
        Ok(lookup::concat(self.unique.clone(), self.positions.clone(), numbers))
    }

    /// Combines the rows of each example into one: shape `[examples, dim]`. Example `i` has the ids
    /// `splits[i]..splits[i + 1]` of the batch; an example without ids gets zeros.
    ///
    /// # Errors
    /// If the splits do not rise from 0 to the number of ids.
    pub fn combine(&self, splits: &[usize], combiner: Combiner) -> Result<Tensor<2>> {
        let (ids, [_, dim]) = (self.positions.dims()[0], self.unique.dims());
        let ordered = splits.first() == Some(&0) && splits.last() == Some(&ids) && splits.is_sorted();
        if !ordered {
            return Err(Error::new(Code::ShapeMismatch, "the splits do not divide the ids into examples")
                .because(format!("they must rise from 0 to {ids}, the number of ids")));
        }
        let (mut example, mut scale) = (Vec::with_capacity(ids), Vec::with_capacity(ids));
        for (at, ends) in splits.windows(2).enumerate() {
            let count = ends[1] - ends[0];
            let each = match combiner {
                Combiner::Sum => 1.0,
                Combiner::Mean => 1.0 / count as f32,
                Combiner::Sqrtn => 1.0 / (count as f32).sqrt(),
            };
            example.extend(std::iter::repeat_n(at as i32, count));
            scale.extend(std::iter::repeat_n(each, count));
        }
        let device = self.unique.device();
        let example = Tensor::<1, Int>::from_data(TensorData::new(example, [ids]), &device);
        let scale = Tensor::<2>::from_data(TensorData::new(scale, [ids, 1]), &device);
        let zeros = Tensor::<2>::zeros([splits.len() - 1, dim], &device);
        Ok(zeros.select_assign(0, example, self.lookup() * scale, IndexingUpdateOp::Add))
    }

    /// Returns the summed gradients of the unique rows, or `None` if the loss does not depend on them.
    ///
    /// # Errors
    /// If they are not 32-bit floats.
    pub fn gradients(&self, gradients: &mut Gradients) -> Result<Option<HostBuffer>> {
        self.unique.grad_remove(gradients).map(HostBuffer::of).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_of_an_example_become_one() {
        let device = crate::default_device();
        let rows = Rows::new(vec![1.0, 2.0, 3.0, 4.0], 2, &[0, 1, 1, 0, 0], &device);
        let of = |combiner| rows.combine(&[0, 2, 2, 5], combiner).unwrap().into_data().try_to_vec::<f32>().unwrap();
        assert_eq!(of(Combiner::Sum), [4.0, 6.0, 0.0, 0.0, 5.0, 8.0]);
        assert_eq!(of(Combiner::Mean)[..4], [2.0, 3.0, 0.0, 0.0]);
        assert!((of(Combiner::Sqrtn)[5] - 8.0 / 3.0_f32.sqrt()).abs() < 1e-6);
        let mut gradients = rows.combine(&[0, 2, 2, 5], Combiner::Mean).unwrap().sum().backward();
        let summed = rows.gradients(&mut gradients).unwrap().unwrap();
        let (first, second) = (0.5 + 2.0 / 3.0, 0.5 + 1.0 / 3.0);
        assert!(summed.iter().zip([first, first, second, second]).all(|(a, b)| (a - b).abs() < 1e-6), "{summed:?}");
        assert!(
            [&[0, 2][..], &[1, 5], &[0, 3, 2, 5], &[]]
                .iter()
                .all(|splits| rows.combine(splits, Combiner::Sum).is_err())
        );
    }

    #[test]
    fn concatenated_rows_match_burn() {
        let device = crate::default_device();
        // The last case is large enough for several threads.
        for (examples, each, dim) in [(1, 1, 1), (3, 2, 2), (300, 26, 16)] {
            let some = |count: usize| (0..count).map(|i| (i * 37 % 101) as f32 / 7.0).collect::<Vec<_>>();
            let positions: Vec<u32> = (0..examples * each).map(|i| (i * i % 97) as u32).collect();
            let weights = Tensor::<2>::from_data(
                TensorData::new(some(examples * (each * dim + 3)), [examples, each * dim + 3]),
                &device,
            );
            let of = |join: &dyn Fn(&Rows, Tensor<2>) -> Tensor<2>| {
                let rows = Rows::new(some(97 * dim), dim, &positions, &device);
                let numbers = Tensor::<2>::from_data(TensorData::new(some(examples * 3), [examples, 3]), &device);
                let numbers = numbers.require_grad();
                let out = join(&rows, numbers.clone());
                let mut gradients = (out.clone() * weights.clone()).sum().backward();
                let of_numbers = numbers.grad(&gradients).unwrap().into_data();
                let of_rows = rows.unique.grad_remove(&mut gradients).unwrap().into_data();
                [out.into_data(), of_numbers, of_rows]
            };
            let ours = of(&|rows, numbers| rows.concat(numbers).unwrap());
            let theirs =
                of(&|rows, numbers| Tensor::cat(vec![rows.lookup().reshape([examples as i32, -1]), numbers], 1));
            for (ours, theirs) in ours.iter().zip(&theirs) {
                ours.assert_approx_eq::<f32>(theirs, burn::tensor::Tolerance::relative(1e-5));
            }
        }
        let rows = Rows::new(vec![1.0], 1, &[0, 0, 0], &device);
        assert_eq!(rows.concat(Tensor::zeros([2, 1], &device)).unwrap_err().code(), Code::ShapeMismatch);
    }

    #[test]
    fn gradients_of_repeated_ids_are_summed_into_their_row() {
        let device = crate::default_device();
        let rows = Rows::new(vec![1.0, 2.0, 3.0, 4.0], 2, &[0, 1, 0], &device);
        let seen = rows.lookup();
        assert_eq!(seen.clone().into_data().as_slice::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0, 1.0, 2.0]);
        let mut gradients = seen.sum().backward();
        assert_eq!(*rows.gradients(&mut gradients).unwrap().unwrap(), [2.0, 2.0, 1.0, 1.0]);
    }
}
