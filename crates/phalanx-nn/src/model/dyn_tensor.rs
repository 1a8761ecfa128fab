//! A tensor with a dynamic rank.

use burn::tensor::{Device, Int, Tensor, TensorData};
use phalanx_base::{Code, Error, Result};

/// A tensor between layers: floats, or integers such as ids, with one to five axes, the first of which is the batch.
///
/// ```
/// use phalanx_nn::burn::tensor::Tensor;
/// use phalanx_nn::model::DynTensor;
/// let value = DynTensor::from(Tensor::<2>::zeros([4, 6], &phalanx_nn::default_device()));
/// assert_eq!(value.dims(), [4, 6]);
/// let cube: Tensor<3> = value.reshape(&[4, 3, 2])?.tensor()?;
/// assert_eq!(cube.dims(), [4, 3, 2]);
/// # Ok::<(), phalanx_nn::model::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct DynTensor(Ranked);

#[derive(Clone, Debug)]
enum Ranked {
    F1(Tensor<1>),
    F2(Tensor<2>),
    F3(Tensor<3>),
    F4(Tensor<4>),
    F5(Tensor<5>),
    I1(Tensor<1, Int>),
    I2(Tensor<2, Int>),
    I3(Tensor<3, Int>),
    I4(Tensor<4, Int>),
    I5(Tensor<5, Int>),
}

/// An operation on a tensor of any rank.
pub(crate) trait Unary {
    fn apply<const D: usize>(&self, x: Tensor<D>) -> Tensor<D>;
}

/// An operation on two tensors of the same rank.
pub(crate) trait Binary {
    fn apply<const D: usize>(&self, a: Tensor<D>, b: Tensor<D>) -> Tensor<D>;
}

macro_rules! from_tensors {
    ($($variant:ident $kind:ty;)*) => {
        $(impl From<$kind> for DynTensor {
            fn from(tensor: $kind) -> Self {
                Self(Ranked::$variant(tensor))
            }
        })*
    };
}

from_tensors! {
    F1 Tensor<1>; F2 Tensor<2>; F3 Tensor<3>; F4 Tensor<4>; F5 Tensor<5>;
    I1 Tensor<1, Int>; I2 Tensor<2, Int>; I3 Tensor<3, Int>; I4 Tensor<4, Int>;
    I5 Tensor<5, Int>;
}

macro_rules! each {
    ($value:expr, $t:ident => $body:expr) => {
        match $value {
            Ranked::F1($t) => $body,
            Ranked::F2($t) => $body,
            Ranked::F3($t) => $body,
            Ranked::F4($t) => $body,
            Ranked::F5($t) => $body,
            Ranked::I1($t) => $body,
            Ranked::I2($t) => $body,
            Ranked::I3($t) => $body,
            Ranked::I4($t) => $body,
            Ranked::I5($t) => $body,
        }
    };
}

macro_rules! each_float {
    ($value:expr, $t:ident => $body:expr) => {
        match $value.float().0 {
            Ranked::F1($t) => $body,
            Ranked::F2($t) => $body,
            Ranked::F3($t) => $body,
            Ranked::F4($t) => $body,
            Ranked::F5($t) => $body,
            // `float` converts these.
            Ranked::I1(_) | Ranked::I2(_) | Ranked::I3(_) | Ranked::I4(_) | Ranked::I5(_) => unreachable!(),
        }
    };
}

impl DynTensor {
    /// Returns a float tensor of this shape.
    ///
    /// # Errors
    /// If the numbers do not fill the shape, or it does not have one to five axes.
    pub fn floats(numbers: Vec<f32>, dims: &[usize], device: &Device) -> Result<Self> {
        let length = check_count(numbers.len(), dims)?;
        Self::from(Tensor::<1>::from_data(TensorData::new(numbers, [length]), device)).reshape(dims)
    }

    /// Returns an integer tensor of this shape.
    ///
    /// # Errors
    /// As [`DynTensor::floats`].
    pub fn integers(numbers: Vec<i64>, dims: &[usize], device: &Device) -> Result<Self> {
        let length = check_count(numbers.len(), dims)?;
        Self::from(Tensor::<1, Int>::from_data(TensorData::new(numbers, [length]), device)).reshape(dims)
    }

    /// Returns the numbers as floats, in row-major order.
    ///
    /// # Errors
    /// If they are not 32-bit floats.
    pub fn numbers(self) -> Result<Vec<f32>> {
        let data = each_float!(self, t => t.into_data());
        data.try_into_vec::<f32>().map_err(|error| {
            Error::new(Code::ShapeMismatch, "a tensor does not hold 32-bit floats").because(format!("{error:?}"))
        })
    }

    /// Returns the tensor detached from the gradient graph.
    #[must_use]
    pub fn detach(self) -> Self {
        each_float!(self, t => t.detach().into())
    }

    /// Returns the shape.
    #[must_use]
    pub fn dims(&self) -> Vec<usize> {
        each!(&self.0, t => t.dims().to_vec())
    }

    /// Converts the tensor to floats.
    #[must_use]
    pub fn float(self) -> Self {
        match self.0 {
            Ranked::I1(t) => t.float().into(),
            Ranked::I2(t) => t.float().into(),
            Ranked::I3(t) => t.float().into(),
            Ranked::I4(t) => t.float().into(),
            Ranked::I5(t) => t.float().into(),
            kind => Self(kind),
        }
    }

    /// Returns the tensor with a static rank.
    ///
    /// # Errors
    /// If it does not have `D` axes.
    pub fn tensor<const D: usize>(self) -> Result<Tensor<D>> {
        let dims = self.dims();
        let Ok(dims) = <[usize; D]>::try_from(dims.as_slice()) else {
            let what = format!("a tensor of shape {dims:?} was requested with {D} axes");
            return Err(Error::new(Code::ShapeMismatch, what).because(format!("it has {}", dims.len())));
        };
        Ok(each_float!(self, t => t.reshape(dims)))
    }

    /// Reshapes the tensor.
    ///
    /// # Errors
    /// If the new shape has another number of elements, or does not have one to five axes.
    pub fn reshape(self, dims: &[usize]) -> Result<Self> {
        let old = self.dims();
        if old == dims {
            return Ok(self);
        }
        if elements(&old) != elements(dims) {
            return Err(Error::new(Code::ShapeMismatch, format!("shape {old:?} cannot become {dims:?}"))
                .because("they hold different numbers of elements"));
        }
        each!(self.0, t => match *dims {
            [a] => Ok(t.reshape([a]).into()),
            [a, b] => Ok(t.reshape([a, b]).into()),
            [a, b, c] => Ok(t.reshape([a, b, c]).into()),
            [a, b, c, d] => Ok(t.reshape([a, b, c, d]).into()),
            [a, b, c, d, e] => Ok(t.reshape([a, b, c, d, e]).into()),
            _ => Err(too_many_axes(dims)),
        })
    }

    /// Returns the numbers as one row of integers; floats are truncated, as in Keras.
    #[must_use]
    pub fn ids(self) -> Tensor<1, Int> {
        let count = self.dims().iter().product::<usize>();
        match self.0 {
            Ranked::I1(t) => t,
            Ranked::I2(t) => t.reshape([count]),
            Ranked::I3(t) => t.reshape([count]),
            Ranked::I4(t) => t.reshape([count]),
            Ranked::I5(t) => t.reshape([count]),
            kind => each_float!(Self(kind), t => t.int().reshape([count])),
        }
    }

    pub(crate) fn map(self, what: &impl Unary) -> Self {
        each_float!(self, t => what.apply(t).into())
    }

    pub(crate) fn zip(self, other: Self, what: &impl Binary) -> Result<Self> {
        let (mine, theirs) = (self.dims(), other.dims());
        match (self.float().0, other.float().0) {
            (Ranked::F1(a), Ranked::F1(b)) => Ok(what.apply(a, b).into()),
            (Ranked::F2(a), Ranked::F2(b)) => Ok(what.apply(a, b).into()),
            (Ranked::F3(a), Ranked::F3(b)) => Ok(what.apply(a, b).into()),
            (Ranked::F4(a), Ranked::F4(b)) => Ok(what.apply(a, b).into()),
            (Ranked::F5(a), Ranked::F5(b)) => Ok(what.apply(a, b).into()),
            _ => Err(Error::new(Code::ShapeMismatch, format!("shapes {mine:?} and {theirs:?} cannot be combined"))
                .because("they have different numbers of axes")),
        }
    }
}

fn elements(dims: &[usize]) -> Option<usize> {
    dims.iter().try_fold(1_usize, |n, &d| n.checked_mul(d))
}

fn check_count(numbers: usize, dims: &[usize]) -> Result<usize> {
    let filled = elements(dims) == Some(numbers);
    filled
        .then_some(numbers)
        .ok_or_else(|| Error::new(Code::ShapeMismatch, format!("{numbers} numbers do not fill shape {dims:?}")))
}

/// Checks a shape without the batch.
pub(crate) fn check_axes(dims: &[usize]) -> Result<()> {
    if dims.len() > 4 {
        return Err(too_many_axes(dims));
    }
    phalanx_base::Shape::new(dims.to_vec()).map(|_| ())
}

fn too_many_axes(dims: &[usize]) -> Error {
    Error::new(Code::ShapeMismatch, format!("a tensor of {} axes, {dims:?}", dims.len()))
        .because("tensors between layers have one to five axes, the batch included")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_ids_stay_what_they_are_through_a_reshape() {
        let ids = Tensor::<2, Int>::from_data([[16_777_217, 1], [2, 3]], &crate::default_device());
        let row = DynTensor::from(ids).reshape(&[4]).unwrap().ids();
        assert_eq!(row.into_data().iter::<i64>().collect::<Vec<_>>(), [16_777_217, 1, 2, 3]);
    }

    #[test]
    fn extents_that_do_not_fit_are_refused() {
        let value = DynTensor::from(Tensor::<2>::zeros([2, 3], &crate::default_device()));
        for dims in [&[5][..], &[], &[1, 1, 1, 1, 2, 3], &[usize::MAX, 2]] {
            assert_eq!(value.clone().reshape(dims).unwrap_err().code(), Code::ShapeMismatch);
        }
        assert!(value.tensor::<3>().is_err());
    }
}
