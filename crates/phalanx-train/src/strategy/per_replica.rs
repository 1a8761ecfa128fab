//! One value for each replica of this process.

use phalanx_base::{Code, Error, Result};
use phalanx_nn::burn::tensor::{Tensor, TensorData};

/// The inputs or results of this process's replicas. A replica without data in this step has none.
///
/// ```
/// use phalanx_train::PerReplica;
/// let losses = PerReplica::new([(0, 0.5_f32), (1, 0.25)]);
/// assert_eq!(losses.local_results().copied().collect::<Vec<_>>(), [0.5, 0.25]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PerReplica<T>(Vec<(usize, T)>);

impl<T> PerReplica<T> {
    /// Creates it from pairs of a replica's local index, from 0, and its value.
    #[must_use]
    pub fn new(values: impl IntoIterator<Item = (usize, T)>) -> Self {
        Self(values.into_iter().collect())
    }

    /// Iterates over the values, in the order of the replicas.
    pub fn local_results(&self) -> impl ExactSizeIterator<Item = &T> {
        self.0.iter().map(|(_, value)| value)
    }

    /// Returns whether no replica has a value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn into_parts(self) -> Vec<(usize, T)> {
        self.0
    }

    /// Pairs each value with its replica's element of `others`.
    pub(crate) fn with<U>(self, others: &mut [U]) -> PerReplica<(T, &mut U)> {
        let mut places: Vec<Option<&mut U>> = others.iter_mut().map(Some).collect();
        let pair = |(place, value): (usize, T)| {
            let other = places.get_mut(place).and_then(Option::take)?;
            Some((place, (value, other)))
        };
        PerReplica(self.0.into_iter().filter_map(pair).collect())
    }
}

/// Values that can be reduced over replicas.
pub trait Reducible: Sized {
    /// Returns the shape. To be summed, values need the same shape on every replica; to be gathered, all but one axis.
    fn dims(&self) -> Vec<usize>;

    /// Returns the elements, row-major.
    ///
    /// # Errors
    /// Fails if they are not 32-bit floats.
    fn numbers(&self) -> Result<Vec<f32>>;

    /// Creates a value from elements and a shape.
    ///
    /// # Errors
    /// Fails if they do not fit the type.
    fn make(numbers: Vec<f32>, dims: &[usize]) -> Result<Self>;
}

impl Reducible for f32 {
    fn dims(&self) -> Vec<usize> {
        Vec::new()
    }

    fn numbers(&self) -> Result<Vec<f32>> {
        Ok(vec![*self])
    }

    fn make(numbers: Vec<f32>, _: &[usize]) -> Result<Self> {
        match numbers[..] {
            [number] => Ok(number),
            _ => Err(Error::new(Code::ShapeMismatch, format!("{} numbers where one was expected", numbers.len()))),
        }
    }
}

impl Reducible for Vec<f32> {
    fn dims(&self) -> Vec<usize> {
        vec![self.len()]
    }

    fn numbers(&self) -> Result<Vec<f32>> {
        Ok(self.clone())
    }

    fn make(numbers: Vec<f32>, _: &[usize]) -> Result<Self> {
        Ok(numbers)
    }
}

impl<const D: usize> Reducible for Tensor<D> {
    fn dims(&self) -> Vec<usize> {
        Tensor::dims(self).to_vec()
    }

    fn numbers(&self) -> Result<Vec<f32>> {
        self.to_data().try_into_vec::<f32>().map_err(|error| {
            Error::new(Code::ShapeMismatch, "a tensor does not hold 32-bit floats").because(format!("{error:?}"))
        })
    }

    fn make(numbers: Vec<f32>, dims: &[usize]) -> Result<Self> {
        if dims.len() != D || dims.iter().product::<usize>() != numbers.len() {
            return Err(Error::new(
                Code::ShapeMismatch,
                format!("{} numbers of shape {dims:?} make no tensor of {D} axes", numbers.len()),
            ));
        }
        Ok(Tensor::from_data(TensorData::new(numbers, dims.to_vec()), &phalanx_nn::default_device()))
    }
}
