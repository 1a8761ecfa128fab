//! One value for each replica of this process.

use phalanx_base::{Code, Error, Result};
use phalanx_nn::burn::tensor::{Tensor, TensorData};

/// What replicas were given or have returned, by replica. One without data in this step has no value here.
///
/// ```
/// use phalanx_train::PerReplica;
/// let losses = PerReplica::new([(0, 0.5_f32), (1, 0.25)]);
/// assert_eq!(losses.local_results().copied().collect::<Vec<_>>(), [0.5, 0.25]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PerReplica<T>(Vec<(usize, T)>);

impl<T> PerReplica<T> {
    /// Values with the numbers of their replicas in this process, from 0.
    #[must_use]
    pub fn new(values: impl IntoIterator<Item = (usize, T)>) -> Self {
        Self(values.into_iter().collect())
    }

    /// The values of this process's replicas, in their order.
    pub fn local_results(&self) -> impl ExactSizeIterator<Item = &T> {
        self.0.iter().map(|(_, value)| value)
    }

    /// Whether no replica here has a value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn into_parts(self) -> Vec<(usize, T)> {
        self.0
    }

    /// Each value together with what belongs to its replica.
    pub(crate) fn with<U>(self, others: &mut [U]) -> PerReplica<(T, &mut U)> {
        let mut places: Vec<Option<&mut U>> = others.iter_mut().map(Some).collect();
        let pair = |(place, value): (usize, T)| {
            let other = places.get_mut(place).and_then(Option::take)?;
            Some((place, (value, other)))
        };
        PerReplica(self.0.into_iter().filter_map(pair).collect())
    }
}

/// Values that add up over replicas.
pub trait Reducible: Sized {
    /// The extents; the same on every replica where values are added, all but one where they are joined.
    fn dims(&self) -> Vec<usize>;

    /// The numbers, one behind another.
    ///
    /// # Errors
    /// When they are not 32-bit floats.
    fn numbers(&self) -> Result<Vec<f32>>;

    /// A value of these numbers.
    ///
    /// # Errors
    /// When they do not make one.
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
