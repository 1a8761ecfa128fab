//! Activation functions.

use super::dyn_tensor::{DynTensor, Unary};
use crate::{Precision, fused_dense};
use burn::tensor::{Tensor, activation};
use phalanx_base::{Code, Error, Result};

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        /// An activation function, as Keras defines it.
        ///
        /// ```
        /// use phalanx_nn::model::Function;
        /// assert_eq!("relu".parse::<Function>()?, Function::Relu);
        /// assert!("reul".parse::<Function>().is_err());
        /// # Ok::<(), phalanx_nn::model::Error>(())
        /// ```
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum Function { $($(#[$doc])* $name,)* }

        impl std::str::FromStr for Function {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self> {
                match text {
                    $($text => Ok(Self::$name),)*
                    _ => Err(Error::new(Code::BadSetting, format!("there is no activation {text:?}"))
                        .help(concat!("one of", $(" ", $text),*))),
                }
            }
        }
    };
}

functions! {
    /// `x`.
    #[default]
    Linear = "linear";
    /// `max(x, 0)`.
    Relu = "relu";
    /// `x` if positive, else `exp(x) - 1`.
    Elu = "elu";
    /// Elu with constants that preserve mean and variance.
    Selu = "selu";
    /// `x` times the cumulative normal distribution, without approximation.
    Gelu = "gelu";
    /// `1 / (1 + exp(-x))`.
    Sigmoid = "sigmoid";
    /// `0.2 x + 0.5` between 0 and 1.
    HardSigmoid = "hard_sigmoid";
    /// The hyperbolic tangent.
    Tanh = "tanh";
    /// `exp(x)` over its sum along the last axis.
    Softmax = "softmax";
    /// `ln(exp(x) + 1)`.
    Softplus = "softplus";
    /// `x / (|x| + 1)`.
    Softsign = "softsign";
    /// `x` times its sigmoid.
    Swish = "swish";
    /// `x` times the hyperbolic tangent of its softplus.
    Mish = "mish";
    /// `exp(x)`.
    Exponential = "exponential";
}

impl Function {
    /// Applies the function to every number of `value`.
    #[must_use]
    pub fn of(self, value: DynTensor) -> DynTensor {
        match self {
            Self::Linear => value,
            _ => value.map(&self),
        }
    }

    /// Applies the function to the output of a [dense layer](fused_dense()). ReLU is fused with it.
    ///
    /// ```
    /// use phalanx_nn::{Precision, burn::tensor::Tensor, default_device, model::Function};
    ///
    /// let [x, kernel] = [[[1.0, 2.0]], [[3.0, -4.0]]].map(|x| Tensor::<2>::from_floats(x, &default_device()));
    /// let bias = Tensor::<1>::zeros([1], &default_device());
    /// let sums = Function::Relu.of_layer(x, kernel.transpose(), bias, Precision::F32);
    /// assert_eq!(sums.into_scalar::<f32>(), 0.0);
    /// ```
    #[must_use]
    pub fn of_layer(self, x: Tensor<2>, kernel: Tensor<2>, bias: Tensor<1>, precision: Precision) -> Tensor<2> {
        let sums = fused_dense(x, kernel, bias, self == Self::Relu, precision);
        match self {
            Self::Linear | Self::Relu => sums,
            _ => self.apply(sums),
        }
    }
}

/// `ln(exp(x) + 1)` in a form that neither overflows nor loses small results or the gradient at 0.
fn softplus<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    activation::log_sigmoid(x.neg()).neg()
}

impl Unary for Function {
    fn apply<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        match self {
            Self::Linear => x,
            Self::Relu => activation::relu(x),
            Self::Elu => activation::elu(x, 1.0),
            Self::Selu => activation::selu(x),
            Self::Gelu => activation::gelu(x),
            Self::Sigmoid => activation::sigmoid(x),
            Self::HardSigmoid => (x * 0.2 + 0.5).clamp(0.0, 1.0),
            Self::Tanh => activation::tanh(x),
            Self::Softmax => activation::softmax(x, D - 1),
            Self::Softplus => softplus(x),
            Self::Softsign => activation::softsign(x),
            Self::Swish => activation::silu(x),
            Self::Mish => x.clone() * softplus(x).tanh(),
            Self::Exponential => x.exp(),
        }
    }
}
