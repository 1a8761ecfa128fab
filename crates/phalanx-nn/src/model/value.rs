//! A tensor whose rank is known only when the program runs.

use burn::tensor::{Device, Int, Tensor, TensorData};
use phalanx_base::{Code, Error, Result};

/// What flows between layers: numbers, or whole numbers such as ids, of one to five axes; the first is the batch.
///
/// ```
/// use phalanx_nn::burn::tensor::Tensor;
/// use phalanx_nn::model::Value;
/// let value = Value::from(Tensor::<2>::zeros([4, 6], &phalanx_nn::default_device()));
/// assert_eq!(value.dims(), [4, 6]);
/// let cube: Tensor<3> = value.reshape(&[4, 3, 2])?.tensor()?;
/// assert_eq!(cube.dims(), [4, 3, 2]);
/// # Ok::<(), phalanx_nn::model::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Value(Kind);

#[derive(Clone, Debug)]
enum Kind {
    F1(Tensor<1>),
    F2(Tensor<2>),
    F3(Tensor<3>),
    F4(Tensor<4>),
    F5(Tensor<5>),
    I1(Tensor<1, Int>),
    I2(Tensor<2, Int>),
    I3(Tensor<3, Int>),
    I4(Tensor<4, Int>),
}

/// Something done alike to tensors of every rank.
pub(crate) trait Unary {
    fn apply<const D: usize>(&self, x: Tensor<D>) -> Tensor<D>;
}

/// Something done alike to two tensors of one rank.
pub(crate) trait Binary {
    fn apply<const D: usize>(&self, a: Tensor<D>, b: Tensor<D>) -> Tensor<D>;
}

macro_rules! from_tensors {
    ($($variant:ident $kind:ty;)*) => {
        $(impl From<$kind> for Value {
            fn from(tensor: $kind) -> Self {
                Self(Kind::$variant(tensor))
            }
        })*
    };
}

from_tensors! {
    F1 Tensor<1>; F2 Tensor<2>; F3 Tensor<3>; F4 Tensor<4>; F5 Tensor<5>;
    I1 Tensor<1, Int>; I2 Tensor<2, Int>; I3 Tensor<3, Int>; I4 Tensor<4, Int>;
}

macro_rules! each {
    ($value:expr, $t:ident => $body:expr) => {
        match $value {
            Kind::F1($t) => $body,
            Kind::F2($t) => $body,
            Kind::F3($t) => $body,
            Kind::F4($t) => $body,
            Kind::F5($t) => $body,
            Kind::I1($t) => $body,
            Kind::I2($t) => $body,
            Kind::I3($t) => $body,
            Kind::I4($t) => $body,
        }
    };
}

macro_rules! each_float {
    ($value:expr, $t:ident => $body:expr) => {
        match $value.float().0 {
            Kind::F1($t) => $body,
            Kind::F2($t) => $body,
            Kind::F3($t) => $body,
            Kind::F4($t) => $body,
            Kind::F5($t) => $body,
            // `float` leaves none of these.
            Kind::I1(_) | Kind::I2(_) | Kind::I3(_) | Kind::I4(_) => unreachable!(),
        }
    };
}

impl Value {
    /// Numbers of these extents, the batch first.
    ///
    /// # Errors
    /// When there are not as many numbers, or no axis or more than five.
    pub fn floats(numbers: Vec<f32>, dims: &[usize], device: &Device) -> Result<Self> {
        check_count(numbers.len(), dims)?;
        let length = numbers.len();
        Self::from(Tensor::<1>::from_data(TensorData::new(numbers, [length]), device)).reshape(dims)
    }

    /// Whole numbers of these extents, the batch first.
    ///
    /// # Errors
    /// As [`Value::floats`].
    pub fn whole_numbers(numbers: Vec<i64>, dims: &[usize], device: &Device) -> Result<Self> {
        check_count(numbers.len(), dims)?;
        let length = numbers.len();
        Self::from(Tensor::<1, Int>::from_data(TensorData::new(numbers, [length]), device)).reshape(dims)
    }

    /// The numbers as floats, one behind another.
    ///
    /// # Errors
    /// When they are not 32-bit floats.
    pub fn numbers(self) -> Result<Vec<f32>> {
        let data = each_float!(self, t => t.into_data());
        data.try_into_vec::<f32>().map_err(|error| {
            Error::new(Code::ShapeMismatch, "a tensor does not hold 32-bit floats").because(format!("{error:?}"))
        })
    }

    /// The same numbers without a way back for gradients.
    #[must_use]
    pub fn detach(self) -> Self {
        each_float!(self, t => t.detach().into())
    }

    /// The extents, the batch first.
    #[must_use]
    pub fn dims(&self) -> Vec<usize> {
        each!(&self.0, t => t.dims().to_vec())
    }

    /// The same numbers as floats.
    #[must_use]
    pub fn float(self) -> Self {
        match self.0 {
            Kind::I1(t) => t.float().into(),
            Kind::I2(t) => t.float().into(),
            Kind::I3(t) => t.float().into(),
            Kind::I4(t) => t.float().into(),
            kind => Self(kind),
        }
    }

    /// The tensor, which must have `D` axes.
    ///
    /// # Errors
    /// When it has another number of axes.
    pub fn tensor<const D: usize>(self) -> Result<Tensor<D>> {
        let dims = self.dims();
        let Ok(dims) = <[usize; D]>::try_from(dims.as_slice()) else {
            let what = format!("a tensor of shape {dims:?} was asked for with {D} axes");
            return Err(Error::new(Code::ShapeMismatch, what).because(format!("it has {}", dims.len())));
        };
        Ok(each_float!(self, t => t.reshape(dims)))
    }

    /// The same numbers in other extents.
    ///
    /// # Errors
    /// When these hold another number of elements, or have no axis or more than five.
    pub fn reshape(self, dims: &[usize]) -> Result<Self> {
        let old = self.dims();
        if old == dims {
            return Ok(self);
        }
        let elements = |dims: &[usize]| dims.iter().try_fold(1_usize, |n, &d| n.checked_mul(d));
        if elements(&old) != elements(dims) {
            return Err(Error::new(Code::ShapeMismatch, format!("shape {old:?} cannot become {dims:?}"))
                .because("they hold different numbers of elements"));
        }
        match self.0 {
            Kind::I1(t) => whole(t, dims),
            Kind::I2(t) => whole(t, dims),
            Kind::I3(t) => whole(t, dims),
            Kind::I4(t) => whole(t, dims),
            kind => each_float!(Self(kind), t => match *dims {
                [a] => Ok(t.reshape([a]).into()),
                [a, b] => Ok(t.reshape([a, b]).into()),
                [a, b, c] => Ok(t.reshape([a, b, c]).into()),
                [a, b, c, d] => Ok(t.reshape([a, b, c, d]).into()),
                [a, b, c, d, e] => Ok(t.reshape([a, b, c, d, e]).into()),
                _ => Err(too_many_axes(dims)),
            }),
        }
    }

    /// The whole numbers in one row; floats are cut to whole numbers, as Keras does.
    #[must_use]
    pub fn ids(self) -> Tensor<1, Int> {
        let count = self.dims().iter().product::<usize>();
        match self.0 {
            Kind::I1(t) => t,
            Kind::I2(t) => t.reshape([count]),
            Kind::I3(t) => t.reshape([count]),
            Kind::I4(t) => t.reshape([count]),
            kind => each_float!(Self(kind), t => t.int().reshape([count])),
        }
    }

    pub(crate) fn map(self, what: &impl Unary) -> Self {
        each_float!(self, t => what.apply(t).into())
    }

    pub(crate) fn zip(self, other: Self, what: &impl Binary) -> Result<Self> {
        let (mine, theirs) = (self.dims(), other.dims());
        match (self.float().0, other.float().0) {
            (Kind::F1(a), Kind::F1(b)) => Ok(what.apply(a, b).into()),
            (Kind::F2(a), Kind::F2(b)) => Ok(what.apply(a, b).into()),
            (Kind::F3(a), Kind::F3(b)) => Ok(what.apply(a, b).into()),
            (Kind::F4(a), Kind::F4(b)) => Ok(what.apply(a, b).into()),
            (Kind::F5(a), Kind::F5(b)) => Ok(what.apply(a, b).into()),
            _ => Err(Error::new(Code::ShapeMismatch, format!("shapes {mine:?} and {theirs:?} do not go together"))
                .because("they have different numbers of axes")),
        }
    }
}

/// Whole numbers in other extents: they stay whole, since a float would round large ids.
fn whole<const D: usize>(t: Tensor<D, Int>, dims: &[usize]) -> Result<Value> {
    match *dims {
        [a] => Ok(t.reshape([a]).into()),
        [a, b] => Ok(t.reshape([a, b]).into()),
        [a, b, c] => Ok(t.reshape([a, b, c]).into()),
        [a, b, c, d] => Ok(t.reshape([a, b, c, d]).into()),
        [a, b, c, d, e] => Ok(t.float().reshape([a, b, c, d, e]).into()),
        _ => Err(too_many_axes(dims)),
    }
}

fn check_count(numbers: usize, dims: &[usize]) -> Result<()> {
    if dims.iter().try_fold(1_usize, |n, &d| n.checked_mul(d)) == Some(numbers) {
        return Ok(());
    }
    Err(Error::new(Code::ShapeMismatch, format!("{numbers} numbers do not fill shape {dims:?}")))
}

/// Refuses extents that no value can have; the batch is not among them.
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
        let row = Value::from(ids).reshape(&[4]).unwrap().ids();
        assert_eq!(row.into_data().iter::<i64>().collect::<Vec<_>>(), [16_777_217, 1, 2, 3]);
    }

    #[test]
    fn extents_that_do_not_fit_are_refused() {
        let value = Value::from(Tensor::<2>::zeros([2, 3], &crate::default_device()));
        for dims in [&[5][..], &[], &[1, 1, 1, 1, 2, 3], &[usize::MAX, 2]] {
            assert_eq!(value.clone().reshape(dims).unwrap_err().code(), Code::ShapeMismatch);
        }
        assert!(value.tensor::<3>().is_err());
    }
}
