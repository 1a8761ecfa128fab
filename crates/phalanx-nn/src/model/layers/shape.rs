//! Changes of shape.

use crate::model::layer::{layer_basics, only, shown};
use crate::model::{DynTensor, Identity, Layer, Mode, Op, Plan, Weights};
use phalanx_base::{Code, Error, Result};

/// Merges all axes but the batch.
///
/// ```
/// use phalanx_nn::model::{Flatten, Sequential};
/// let model = Sequential::new().add(Flatten::new()).build([28, 28])?;
/// assert!(model.summary(None).contains("(None, 784)"));
/// # Ok::<(), phalanx_nn::model::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Flatten {
    identity: Identity,
}

layer_basics!(Flatten);

impl Flatten {
    /// Returns the layer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Layer for Flatten {
    layer_basics!(parts Flatten);

    fn op(&self) -> Option<Op> {
        Some(Op::Reshape)
    }

    fn plan(&self, inputs: &[Vec<usize>]) -> Result<Plan> {
        Ok(Plan::output([only(inputs)?.iter().product::<usize>()]))
    }

    fn forward(&self, inputs: Vec<DynTensor>, _: &Weights<'_>, _: Mode) -> Result<DynTensor> {
        let input = only(inputs)?;
        let dims = input.dims();
        input.reshape(&[dims[0], dims[1..].iter().product()])
    }
}

/// Changes the shape.
///
/// ```
/// use phalanx_nn::model::{Reshape, Sequential};
/// let model = Sequential::new().add(Reshape::new([28, 28, 1])).build([784])?;
/// assert!(model.summary(None).contains("(None, 28, 28, 1)"));
/// # Ok::<(), phalanx_nn::model::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Reshape {
    identity: Identity,
    target: Vec<isize>,
}

layer_basics!(Reshape);

impl Reshape {
    /// Returns a layer for this shape, without the batch. One axis may be -1, and is then inferred.
    #[must_use]
    pub fn new(target: impl Into<Vec<isize>>) -> Self {
        Self { identity: Identity::default(), target: target.into() }
    }

    fn output(&self, input: &[usize]) -> Option<Vec<usize>> {
        let elements = input.iter().product::<usize>();
        let open = self.target.iter().filter(|&&d| d == -1).count();
        let known = self.target.iter().filter(|&&d| d != -1);
        let known = known.copied().try_fold(1_usize, |n, d| n.checked_mul(usize::try_from(d).ok()?))?;
        let rest = match open {
            0 => 1,
            1 => elements.checked_div(known)?,
            _ => return None,
        };
        (known.checked_mul(rest) == Some(elements))
            .then(|| self.target.iter().map(|&d| usize::try_from(d).unwrap_or(rest)).collect())
    }
}

impl Layer for Reshape {
    layer_basics!(parts Reshape);

    fn op(&self) -> Option<Op> {
        Some(Op::Reshape)
    }

    fn plan(&self, inputs: &[Vec<usize>]) -> Result<Plan> {
        let input = only(inputs)?;
        self.output(input).map(Plan::output).ok_or_else(|| {
            let what = format!("an input of shape {} cannot become {:?}", shown(input), self.target);
            Error::new(Code::ShapeMismatch, what)
                .because("both must have the same number of elements, with at most one -1")
        })
    }

    fn forward(&self, inputs: Vec<DynTensor>, _: &Weights<'_>, _: Mode) -> Result<DynTensor> {
        let input = only(inputs)?;
        let dims = input.dims();
        let target = self.output(&dims[1..]).unwrap_or_default();
        input.reshape(&[&dims[..1], &target].concat())
    }
}
