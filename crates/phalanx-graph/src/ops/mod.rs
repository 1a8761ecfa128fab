//! The operations, one file each: shape rule, forward, backward.

mod activation;
mod add;
mod bag;
mod batch_norm;
mod concat;
mod conv2d;
mod cross;
mod dense;
mod dot;
mod dropout;
mod gather;
mod global_mean;
mod layer_norm;
mod losses;
mod merge;
mod pair_products;
mod pool2d;
mod reduce;
mod repeat;
mod reshape;
mod scale;
mod second_order;
mod slice;
mod squared_norm;

pub use activation::Activation;
pub use add::Add;
pub use bag::Bag;
pub use batch_norm::BatchNorm;
pub use concat::Concat;
pub use conv2d::Conv2d;
pub use cross::Cross;
pub use dense::Dense;
pub use dot::Dot;
pub use dropout::Dropout;
pub use gather::Gather;
pub use global_mean::GlobalMean;
pub use layer_norm::LayerNorm;
pub use losses::{
    AbsoluteError, Huber, LogCosh, LogPoisson, PercentageError, Poisson, SigmoidCrossEntropy,
    SparseSoftmaxCrossEntropy, SquaredError, SquaredLogError,
};
pub use merge::Merge;
pub use pair_products::{PairProducts, pairs};
pub use pool2d::Pool2d;
pub use reduce::Reduce;
pub use repeat::Repeat;
pub use reshape::Reshape;
pub use scale::Scale;
pub use second_order::SecondOrder;
pub use slice::Slice;
pub use squared_norm::SquaredNorm;

use crate::op::Operation;
use phalanx_base::{Code, Error, Result};
use serde::{Deserialize, Serialize};

macro_rules! ops {
    ($($name:ident),*) => {
        /// An operation, or what a batch and a model bring along.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum Op {
            /// The values of an input, by its number.
            Input(usize),
            /// The values of a parameter, by its number.
            Parameter(usize),
            /// The unique rows of a table that a batch looks up, by its number.
            Rows(usize),
            $(#[doc = concat!("See [`", stringify!($name), "`].")] $name($name),)*
        }

        impl Op {
            /// Returns the name of the operation.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self {
                    Self::Input(_) => "Input",
                    Self::Parameter(_) => "Parameter",
                    Self::Rows(_) => "Rows",
                    $(Self::$name(_) => stringify!($name),)*
                }
            }

            /// Returns what is computed; `None` for values that are there already.
            pub(crate) fn operation(&self) -> Option<&dyn Operation> {
                match self {
                    Self::Input(_) | Self::Parameter(_) | Self::Rows(_) => None,
                    $(Self::$name(own) => Some(own),)*
                }
            }
        }

        $(impl From<$name> for Op {
            fn from(own: $name) -> Self {
                Self::$name(own)
            }
        })*
    };
}

ops!(
    AbsoluteError,
    Cross,
    Gather,
    Huber,
    LogCosh,
    PercentageError,
    Poisson,
    SquaredLogError,
    Activation,
    Add,
    Bag,
    BatchNorm,
    Concat,
    Conv2d,
    Dense,
    Dot,
    Dropout,
    GlobalMean,
    LayerNorm,
    LogPoisson,
    Merge,
    PairProducts,
    Pool2d,
    Reduce,
    Repeat,
    Reshape,
    Scale,
    SecondOrder,
    SigmoidCrossEntropy,
    Slice,
    SparseSoftmaxCrossEntropy,
    SquaredError,
    SquaredNorm
);

/// Returns the inputs as an array, or an error if there is another number of them.
fn exactly<const N: usize, T: Copy>(inputs: &[T]) -> Result<[T; N]> {
    inputs
        .try_into()
        .map_err(|_| Error::new(Code::ShapeMismatch, format!("an operation of {N} inputs was given {}", inputs.len())))
}

/// Returns the error of inputs that do not fit each other.
fn misfit(what: String) -> Error {
    Error::new(Code::ShapeMismatch, what)
}
