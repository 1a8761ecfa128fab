//! Products of two inputs, example by example.

use crate::model::layer::{layer_basics, shown};
use crate::model::{Identity, Layer, Mode, Op, Plan, Value, Weights};
use burn::tensor::Tensor;
use phalanx_base::{Code, Error, Result};

/// The dot products of two inputs along one axis of each, as Keras' `Dot`: of two vectors a number, of two matrices a
/// matrix.
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
    /// Along this axis of the first and that of the second; the batch is 0, negative ones count from the end.
    #[must_use]
    pub fn new(axes: [isize; 2]) -> Self {
        Self { identity: Identity::default(), axes, normalize: false }
    }

    /// Whether both are first brought to length 1 along their axes, which gives the cosine; not unless set.
    #[must_use]
    pub fn normalize(mut self, normalize: bool) -> Self {
        self.normalize = normalize;
        self
    }

    /// The place of the axis among the extents without the batch.
    fn place(&self, which: usize, dims: &[usize]) -> Result<usize> {
        let (axis, rank) = (self.axes[which], dims.len() + 1);
        let place = if axis < 0 { rank.checked_add_signed(axis) } else { Some(axis.unsigned_abs()) };
        match place.and_then(|place| place.checked_sub(1)) {
            Some(place) if place < dims.len() && dims.len() <= 2 => Ok(place),
            _ => Err(Error::new(Code::ShapeMismatch, format!("an input of shape {} along axis {axis}", shown(dims)))
                .because("an input has two or three axes, and its axis is not the batch")),
        }
    }

    /// The input as one matrix for each example, with the axis last.
    fn matrices(&self, which: usize, input: Value) -> Result<Tensor<3>> {
        let dims = input.dims();
        let place = self.place(which, &dims[1..])?;
        let cube: Tensor<3> = match *dims.as_slice() {
            [batch, length] => input.reshape(&[batch, 1, length])?.tensor()?,
            _ => input.tensor()?,
        };
        let cube = if dims.len() == 3 && place == 0 { cube.swap_dims(1, 2) } else { cube };
        Ok(if self.normalize {
            let square = cube.clone().powi_scalar(2).sum_dim(2);
            // Keras divides by no less than this, so that a vector of zeros stays one.
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
            return Err(Error::new(Code::ShapeMismatch, what).because("these axes have the same length"));
        }
        let without = |dims: &[usize], place: usize| [&dims[..place], &dims[place + 1..]].concat();
        let output = [without(a, left), without(b, right)].concat();
        Ok(Plan::output(if output.is_empty() { vec![1] } else { output }))
    }

    fn forward(&self, inputs: Vec<Value>, _: &Weights<'_>, _: Mode) -> Result<Value> {
        let (a, b) = pair(inputs)?;
        let dims: Vec<Vec<usize>> = [&a, &b].map(|value| value.dims()[1..].to_vec()).to_vec();
        let batch = a.dims()[0];
        let product = self.matrices(0, a)?.matmul(self.matrices(1, b)?.swap_dims(1, 2));
        Value::from(product).reshape(&[vec![batch], self.plan(&dims)?.output].concat())
    }
}
