//! Dot products of two inputs.

use crate::model::layer::{layer_basics, shown};
use crate::model::{DynTensor, Identity, Layer, Mode, Op, Plan, Weights};
use burn::tensor::Tensor;
use phalanx_base::{Code, Error, Result};

/// Keras' `Dot`: the dot products of two inputs along one axis of each. Two vectors yield a number, two matrices a matrix.
///
/// ```
/// use phalanx_nn::model::{Dot, Input, Layer, Model};
/// let (a, b) = (Input::new([4]), Input::new([4]));
/// let model = Model::new([&a, &b], &Dot::new([1, 1]).normalize(true).call([&a, &b]))?;
/// assert!(model.summary(None).contains("(None, 1)"));
/// # Ok::<(), phalanx_nn::model::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Dot {
    identity: Identity,
    axes: [isize; 2],
    normalize: bool,
}

layer_basics!(Dot);

impl Dot {
    /// Returns a layer for these axes of the two inputs. The batch is 0, negative axes count from the end.
    #[must_use]
    pub fn new(axes: [isize; 2]) -> Self {
        Self { identity: Identity::default(), axes, normalize: false }
    }

    setters! {
        /// Sets whether to normalize both inputs first, which yields the cosine. The default is false.
        normalize: bool => normalize;
    }

    /// The index of the axis in the shape without the batch.
    fn place(&self, which: usize, dims: &[usize]) -> Result<usize> {
        let (axis, rank) = (self.axes[which], dims.len() + 1);
        let place = if axis < 0 { rank.checked_add_signed(axis) } else { Some(axis.unsigned_abs()) };
        match place.and_then(|place| place.checked_sub(1)) {
            Some(place) if place < dims.len() && dims.len() <= 2 => Ok(place),
            _ => Err(Error::new(Code::ShapeMismatch, format!("an input of shape {} along axis {axis}", shown(dims)))
                .because("an input must have two or three axes, and the axis must not be the batch")),
        }
    }

    /// The input as one matrix per example, with the axis last.
    fn matrices(&self, which: usize, input: DynTensor) -> Result<Tensor<3>> {
        let dims = input.dims();
        let place = self.place(which, &dims[1..])?;
        let cube: Tensor<3> = match *dims.as_slice() {
            [batch, length] => input.reshape(&[batch, 1, length])?.tensor()?,
            _ => input.tensor()?,
        };
        let cube = if dims.len() == 3 && place == 0 { cube.swap_dims(1, 2) } else { cube };
        Ok(if self.normalize {
            let square = cube.clone().powi_scalar(2).sum_dim(2);
            // Keras' smallest divisor, which preserves a vector of zeros.
            cube / square.clamp_min(1e-12).sqrt()
        } else {
            cube
        })
    }
}

fn pair<T>(inputs: impl IntoIterator<Item = T>) -> Result<(T, T)> {
    let mut inputs = inputs.into_iter();
    match (inputs.next(), inputs.next(), inputs.next()) {
        (Some(a), Some(b), None) => Ok((a, b)),
        _ => Err(Error::new(Code::ShapeMismatch, "the layer takes exactly two inputs")),
    }
}

impl Layer for Dot {
    layer_basics!(parts Dot);

    fn op(&self) -> Option<Op> {
        Some(Op::Dot { axes: self.axes, normalize: self.normalize })
    }

    fn plan(&self, inputs: &[Vec<usize>]) -> Result<Plan> {
        let (a, b) = pair(inputs)?;
        let (left, right) = (self.place(0, a)?, self.place(1, b)?);
        if a[left] != b[right] {
            let what = format!("inputs of shapes {} and {} along axes {:?}", shown(a), shown(b), self.axes);
            return Err(Error::new(Code::ShapeMismatch, what).because("the axes must have the same length"));
        }
        let without = |dims: &[usize], place: usize| [&dims[..place], &dims[place + 1..]].concat();
        let output = [without(a, left), without(b, right)].concat();
        Ok(Plan::output(if output.is_empty() { vec![1] } else { output }))
    }

    fn forward(&self, inputs: Vec<DynTensor>, _: &Weights<'_>, _: Mode) -> Result<DynTensor> {
        let (a, b) = pair(inputs)?;
        let dims: Vec<Vec<usize>> = [&a, &b].map(|value| value.dims()[1..].to_vec()).to_vec();
        let batch = a.dims()[0];
        let product = self.matrices(0, a)?.matmul(self.matrices(1, b)?.swap_dims(1, 2));
        DynTensor::from(product).reshape(&[vec![batch], self.plan(&dims)?.output].concat())
    }
}
