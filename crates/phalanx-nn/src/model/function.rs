//! Activation functions on tensors.

use super::dyn_tensor::{DynTensor, Unary};
use crate::{Precision, fused_dense};
use burn::tensor::{Tensor, activation};
use phalanx_graph::Function;

/// Applies the function to every number of `value`.
pub(crate) fn applied(function: Function, value: DynTensor) -> DynTensor {
    match function {
        Function::Linear => value,
        _ => value.map(&function),
    }
}

/// Computes a dense layer and its activation function. ReLU is fused with the layer.
pub(crate) fn activated_dense(
    function: Function,
    x: Tensor<2>,
    kernel: Tensor<2>,
    bias: Tensor<1>,
    precision: Precision,
) -> Tensor<2> {
    let sums = fused_dense(x, kernel, bias, function == Function::Relu, precision);
    match function {
        Function::Linear | Function::Relu => sums,
        _ => function.apply(sums),
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
