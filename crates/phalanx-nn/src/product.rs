//! Products of matrices, with kernels of our own where the processor has what they need.

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind, binary};
use burn::backend::autodiff::{Autodiff, NodeId};
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, backend_extension};
use burn::tensor::{DType, Tensor, TensorData};
use phalanx_matmul::{Matrix, Precision, is_supported};

/// The product of two matrices. In [`Precision::Bf16`] the factors are rounded, here and where gradients go back, and
/// the products are summed up as 32-bit floats; where the processor cannot do that, nothing is rounded.
///
/// ```
/// use phalanx_nn::{Precision, burn::tensor::Tensor, default_device, matmul};
///
/// let x = Tensor::<2>::from_floats([[1.0, 2.0]], &default_device());
/// let kernel = Tensor::<2>::from_floats([[3.0], [4.0]], &default_device());
/// assert_eq!(matmul(x, kernel, Precision::F32).into_scalar::<f32>(), 11.0);
/// ```
///
/// # Panics
/// When the shapes do not fit together, as Burn's own product does.
#[must_use]
pub fn matmul(a: Tensor<2>, b: Tensor<2>, precision: Precision) -> Tensor<2> {
    let half = precision == Precision::Bf16;
    Tensor::from_dispatch(<Dispatch as Products>::product(a.into_dispatch(), b.into_dispatch(), false, false, half))
}

/// What a tensor library has to do for [`matmul`]; `turn_a` and `turn_b` say which factors are read by columns.
#[backend_extension(Flex, Autodiff, Cube: cfg(any(feature = "vulkan", feature = "cuda")))]
#[allow(unreachable_pub, reason = "what the macro makes of it is public")]
pub trait Products: Backend {
    /// The product.
    fn product(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        turn_a: bool,
        turn_b: bool,
        half: bool,
    ) -> FloatTensor<Self> {
        let _ = half;
        let turned = |x: FloatTensor<Self>, turn: bool| if turn { Self::float_transpose(x) } else { x };
        Self::float_matmul(turned(a, turn_a), turned(b, turn_b))
    }
}

#[cfg(any(feature = "vulkan", feature = "cuda"))]
impl Products for burn::backend::Cube {}

impl Products for Flex {
    fn product(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        turn_a: bool,
        turn_b: bool,
        half: bool,
    ) -> FloatTensor<Self> {
        let wanted = if half { Precision::Bf16 } else { Precision::F32 };
        let precision = if is_supported(wanted) { wanted } else { Precision::F32 };
        if !is_supported(precision) || a.dtype() != DType::F32 || b.dtype() != DType::F32 {
            let turned = |x: FloatTensor<Self>, turn: bool| if turn { x.transpose(0, 1) } else { x };
            return Self::float_matmul(turned(a, turn_a), turned(b, turn_b));
        }
        let (a, b) = (a.to_contiguous(), b.to_contiguous());
        let (left, right) = (matrix(&a, turn_a), matrix(&b, turn_b));
        let shape = [left.rows(), right.columns()];
        FloatTensor::<Self>::from_data(TensorData::new(phalanx_matmul::product(left, right, precision), shape))
    }
}

fn matrix(tensor: &FloatTensor<Flex>, turned: bool) -> Matrix<'_> {
    let shape = tensor.layout().shape();
    let matrix = Matrix::new(tensor.as_slice::<f32>().unwrap_or_default(), shape[0], shape[1]);
    if turned { matrix.transposed() } else { matrix }
}

impl<B: Products, C: CheckpointStrategy> Products for Autodiff<B, C> {
    /// Factors that are to be turned are so only on the way back, which has no way back of its own.
    fn product(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        turn_a: bool,
        turn_b: bool,
        half: bool,
    ) -> FloatTensor<Self> {
        if turn_a || turn_b {
            let turned = |x: FloatTensor<Self>, turn: bool| if turn { Self::float_transpose(x) } else { x };
            return Self::product(turned(a, turn_a), turned(b, turn_b), false, false, half);
        }
        let (a_learns, b_learns) = (a.is_tracked(), b.is_tracked());
        match Product.prepare::<C>([a.node(), b.node()]).compute_bound().stateful() {
            OpsKind::Tracked(mut prepared) => {
                let kept_a = b_learns.then(|| prepared.checkpoint(&a));
                let kept_b = a_learns.then(|| prepared.checkpoint(&b));
                let product = B::product(a.into_primitive(), b.into_primitive(), false, false, half);
                prepared.finish((kept_a, kept_b, half), product)
            }
            OpsKind::UnTracked(prepared) => {
                prepared.finish(B::product(a.into_primitive(), b.into_primitive(), false, false, half))
            }
        }
    }
}

#[derive(Debug)]
struct Product;

impl<B: Products> Backward<B, 2> for Product {
    /// Each factor that the other one's gradient needs, and whether products are rounded.
    type State = (Option<NodeId>, Option<NodeId>, bool);

    fn backward(self, ops: Ops<Self::State, 2>, gradients: &mut Gradients, kept: &mut Checkpointer) {
        let (a, b, half) = ops.state;
        let a: Option<FloatTensor<B>> = a.map(|a| kept.retrieve_node_output(a));
        let b: Option<FloatTensor<B>> = b.map(|b| kept.retrieve_node_output(b));
        binary::<B, _, _>(
            ops.parents,
            ops.node,
            gradients,
            |gradient| match b {
                Some(b) => B::product(gradient, b, false, true, half),
                None => gradient,
            },
            |gradient| match a {
                Some(a) => B::product(a, gradient, true, false, half),
                None => gradient,
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Initializer;
    use burn::tensor::Tolerance;

    /// The product, and the gradients of a sum over it.
    fn with([m, k, n]: [usize; 3], product: impl Fn(Tensor<2>, Tensor<2>) -> Tensor<2>) -> [TensorData; 3] {
        // Not the device's: other tests draw from it at the same time.
        let random = |[rows, columns]: [usize; 2], seed: u64| {
            let numbers = Initializer::RandomUniform { low: -2.0, high: 2.0 }.values(&[rows * columns], seed);
            Tensor::<2>::from_data(TensorData::new(numbers, [rows, columns]), &crate::default_device())
        };
        let (a, b, weights) = (random([m, k], 1).require_grad(), random([k, n], 2).require_grad(), random([m, n], 3));
        let out = product(a.clone(), b.clone());
        let gradients = (out.clone() * weights).sum().backward();
        [out.into_data(), a.grad(&gradients).unwrap().into_data(), b.grad(&gradients).unwrap().into_data()]
    }

    const SHAPES: [[usize; 3]; 6] = [[1, 1, 1], [3, 5, 2], [128, 784, 10], [17, 33, 47], [300, 800, 65], [40, 1, 300]];

    #[test]
    fn products_and_gradients_are_those_of_the_library() {
        for shape in SHAPES {
            let ours = with(shape, |a, b| matmul(a, b, Precision::F32));
            let theirs = with(shape, |a, b| a.matmul(b));
            for (ours, theirs) in ours.iter().zip(&theirs) {
                ours.assert_approx_eq::<f32>(theirs, Tolerance::absolute(2e-4));
            }
        }
    }

    #[test]
    fn rounded_products_are_near() {
        for shape in SHAPES {
            let rounded = with(shape, |a, b| matmul(a, b, Precision::Bf16));
            let exact = with(shape, |a, b| a.matmul(b));
            // Eight bits of each factor are kept; errors of a sum grow with the root of its length.
            let bound = 0.02 * (shape.iter().max().copied().unwrap_or(1) as f32).sqrt();
            for (rounded, exact) in rounded.iter().zip(&exact) {
                rounded.assert_approx_eq::<f32>(exact, Tolerance::absolute(bound));
            }
        }
    }

    #[test]
    fn factors_may_be_read_by_columns_and_need_not_learn() {
        let device = crate::default_device();
        let x = Tensor::<2>::from_floats([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], &device);
        let w = Tensor::<2>::from_floats([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]], &device).require_grad();
        let product = matmul(x.clone(), w.clone().transpose(), Precision::F32);
        assert_eq!(product.clone().into_data().try_to_vec::<f32>().unwrap(), [7.0, 5.0, 16.0, 11.0]);
        let gradients = product.sum().backward();
        assert_eq!(
            w.grad(&gradients).unwrap().into_data().try_to_vec::<f32>().unwrap(),
            [5.0, 7.0, 9.0, 5.0, 7.0, 9.0]
        );
    }
}
