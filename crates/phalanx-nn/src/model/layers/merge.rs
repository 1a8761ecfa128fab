//! Layers that merge several inputs.

use crate::model::dyn_tensor::{Binary, Unary};
use crate::model::layer::{layer_basics, shown};
use crate::model::{DynTensor, Identity, Layer, Mode, Op, Plan, Weights};
use burn::tensor::Tensor;
use phalanx_base::{Code, Error, Result};

macro_rules! merges {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $($(#[$doc])*
        #[derive(Clone, Debug, Default)]
        pub struct $name {
            identity: Identity,
        }

        layer_basics!($name);

        impl $name {
            /// Returns the layer.
            #[must_use]
            pub fn new() -> Self {
                Self::default()
            }
        }

        impl Layer for $name {
            layer_basics!(parts $name);

            fn op(&self) -> Option<Op> {
                Some(Op::$name)
            }

            fn plan(&self, inputs: &[Vec<usize>]) -> Result<Plan> {
                if Merge::$name == Merge::Subtract && inputs.len() != 2 {
                    let what = format!("Subtract was given {} inputs", inputs.len());
                    return Err(Error::new(Code::ShapeMismatch, what).because("it takes exactly two"));
                }
                broadcast(inputs).map(Plan::output)
            }

            fn forward(&self, inputs: Vec<DynTensor>, _: &Weights<'_>, _: Mode) -> Result<DynTensor> {
                merge(inputs, Merge::$name)
            }
        })*

        #[derive(Clone, Copy, PartialEq)]
        enum Merge { $($name,)* }
    };
}

merges! {
    /// The sum of all inputs.
    Add;
    /// The first input minus the second.
    Subtract;
    /// The product of all inputs.
    Multiply;
    /// The mean of all inputs.
    Average;
    /// The element-wise maximum of all inputs.
    Maximum;
    /// The element-wise minimum of all inputs.
    Minimum;
}

impl Binary for Merge {
    fn apply<const D: usize>(&self, a: Tensor<D>, b: Tensor<D>) -> Tensor<D> {
        match self {
            Self::Add | Self::Average => a + b,
            Self::Subtract => a - b,
            Self::Multiply => a * b,
            Self::Maximum => a.max_pair(b),
            Self::Minimum => a.min_pair(b),
        }
    }
}

struct Divide(f64);

impl Unary for Divide {
    fn apply<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        x / self.0
    }
}

fn merge(inputs: Vec<DynTensor>, how: Merge) -> Result<DynTensor> {
    let count = inputs.len();
    let mut inputs = inputs.into_iter();
    let first = inputs.next().ok_or_else(|| too_few(0))?;
    let merged = inputs.try_fold(first, |merged, next| merged.zip(next, &how))?;
    Ok(if how == Merge::Average { merged.map(&Divide(count as f64)) } else { merged })
}

fn too_few(count: usize) -> Error {
    Error::new(Code::ShapeMismatch, format!("the layer was given {count} inputs"))
        .because("it takes at least two")
        .help("call it with a list: layer.call([&a, &b])")
}

fn different(a: &[usize], b: &[usize]) -> Error {
    Error::new(Code::ShapeMismatch, format!("inputs of shapes {} and {} cannot be merged", shown(a), shown(b)))
}

/// The broadcast shape of all inputs.
fn broadcast(inputs: &[Vec<usize>]) -> Result<Vec<usize>> {
    let [first, rest @ ..] = inputs else { return Err(too_few(0)) };
    if rest.is_empty() {
        return Err(too_few(1));
    }
    rest.iter().try_fold(first.clone(), |all, next| {
        let together = |(&a, &b): (&usize, &usize)| match (a, b) {
            (a, b) if a == b => Some(a),
            (1, other) | (other, 1) => Some(other),
            _ => None,
        };
        let merged: Option<Vec<usize>> = all.iter().zip(next).map(together).collect();
        merged
            .filter(|_| all.len() == next.len())
            .ok_or_else(|| different(&all, next).because("each axis must be equal in both, or 1 in one of them"))
    })
}

/// The concatenation of inputs along an axis.
///
/// ```
/// use phalanx_nn::model::{Concatenate, Input, Layer, Model};
/// let (a, b) = (Input::new([4]), Input::new([4]));
/// let model = Model::new([&a, &b], &Concatenate::new().call([&a, &b]))?;
/// assert!(model.summary(None).contains("(None, 8)"));
/// # Ok::<(), phalanx_nn::model::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Concatenate {
    identity: Identity,
    axis: isize,
}

layer_basics!(Concatenate);

impl Concatenate {
    /// Returns a layer for the last axis.
    #[must_use]
    pub fn new() -> Self {
        Self { identity: Identity::default(), axis: -1 }
    }

    setters! {
        /// Sets the axis. 0 is the batch, which is not allowed; negative axes count from the end.
        axis: isize => axis;
    }

    /// The index of the axis among `rank` axes, including the batch.
    fn place(&self, rank: usize) -> Option<usize> {
        let axis = if self.axis < 0 { rank.checked_add_signed(self.axis)? } else { self.axis.unsigned_abs() };
        (1..rank).contains(&axis).then_some(axis)
    }
}

impl Default for Concatenate {
    fn default() -> Self {
        Self::new()
    }
}

impl Layer for Concatenate {
    layer_basics!(parts Concatenate);

    fn op(&self) -> Option<Op> {
        Some(Op::Concatenate { axis: self.axis })
    }

    fn plan(&self, inputs: &[Vec<usize>]) -> Result<Plan> {
        let [first, rest @ ..] = inputs else { return Err(too_few(0)) };
        if rest.is_empty() {
            return Err(too_few(1));
        }
        let axis = self.place(first.len() + 1).ok_or_else(|| {
            Error::new(Code::ShapeMismatch, format!("inputs of shape {} have no axis {}", shown(first), self.axis))
                .because("the axis must exist and must not be the batch")
        })? - 1;
        let mut output = first.clone();
        for next in rest {
            let alike = next.len() == first.len() && (0..first.len()).all(|i| i == axis || first[i] == next[i]);
            if !alike {
                return Err(different(first, next).because(format!("all axes but {} must be equal", axis + 1)));
            }
            output[axis] += next[axis];
        }
        Ok(Plan::output(output))
    }

    fn forward(&self, inputs: Vec<DynTensor>, _: &Weights<'_>, _: Mode) -> Result<DynTensor> {
        let mut inputs = inputs.into_iter();
        let first = inputs.next().ok_or_else(|| too_few(0))?;
        let axis = self.place(first.dims().len()).unwrap_or_default();
        inputs.try_fold(first, |joined, next| joined.zip(next, &Join(axis)))
    }
}

struct Join(usize);

impl Binary for Join {
    fn apply<const D: usize>(&self, a: Tensor<D>, b: Tensor<D>) -> Tensor<D> {
        Tensor::cat(vec![a, b], self.0)
    }
}
