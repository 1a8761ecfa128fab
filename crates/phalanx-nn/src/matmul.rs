//! Matrix multiplication, with our own kernels on CPUs that support them.

use crate::fused_dense;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind, binary};
use burn::backend::autodiff::{Autodiff, NodeId};
use burn::backend::ops::{ActivationOps, FloatTensorOps};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, backend_extension};
use burn::tensor::{DType, Tensor, TensorData};
use phalanx_matmul::{Finish, Matrix, Precision, is_supported};

/// Returns the product of two matrices. With [`Precision::Bf16`] the factors are rounded, in the forward and in the backward
/// pass, and their products are accumulated as 32-bit floats. A CPU without support for that rounds nothing.
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
/// If the shapes do not match, as Burn's own `matmul` does.
#[must_use]
pub fn matmul(a: Tensor<2>, b: Tensor<2>, precision: Precision) -> Tensor<2> {
    Tensor::from_dispatch(<Dispatch as MatmulBackend>::matmul(
        a.into_dispatch(),
        b.into_dispatch(),
        Trans::NONE,
        precision,
    ))
}

/// Which of the two factors are transposed.
#[derive(Clone, Copy, Debug)]
#[allow(unreachable_pub, reason = "the trait that names it is public")]
pub struct Trans {
    a: bool,
    b: bool,
}

impl Trans {
    pub(crate) const NONE: Self = Self { a: false, b: false };
    pub(crate) const A: Self = Self { a: true, b: false };
    pub(crate) const B: Self = Self { a: false, b: true };

    fn apply<L: Backend>(self, a: FloatTensor<L>, b: FloatTensor<L>) -> (FloatTensor<L>, FloatTensor<L>) {
        let transposed = |x, transpose: bool| if transpose { L::float_transpose(x) } else { x };
        (transposed(a, self.a), transposed(b, self.b))
    }
}

/// The backend operations behind [`matmul`] and [`fused_dense`](crate::fused_dense()).
#[backend_extension(Flex, Autodiff, Cube: cfg(any(feature = "vulkan", feature = "cuda")))]
#[allow(unreachable_pub, reason = "the code that the macro generates is public")]
pub trait MatmulBackend: Backend {
    /// Multiplies two matrices. The default is Burn's own `matmul`, which rounds nothing.
    fn matmul(a: FloatTensor<Self>, b: FloatTensor<Self>, trans: Trans, precision: Precision) -> FloatTensor<Self> {
        let _ = precision;
        let (a, b) = trans.apply::<Self>(a, b);
        Self::float_matmul(a, b)
    }

    /// Multiplies, adds the bias to every row and applies ReLU if `relu` is set.
    fn fused_dense(
        x: FloatTensor<Self>,
        kernel: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        relu: bool,
        precision: Precision,
    ) -> FloatTensor<Self> {
        fused_dense::by_burn::<Self>(x, kernel, bias, relu, precision)
    }

    /// Propagates a gradient back through a ReLU with this output.
    fn through_relu(gradient: FloatTensor<Self>, output: FloatTensor<Self>) -> FloatTensor<Self> {
        Self::relu_backward(output, gradient)
    }

    /// Sums every column: the gradient of a bias.
    fn column_sums(gradient: FloatTensor<Self>) -> FloatTensor<Self> {
        fused_dense::column_sums_by_burn::<Self>(gradient)
    }
}

#[cfg(any(feature = "vulkan", feature = "cuda"))]
impl MatmulBackend for burn::backend::Cube {}

impl MatmulBackend for Flex {
    fn matmul(a: FloatTensor<Self>, b: FloatTensor<Self>, trans: Trans, precision: Precision) -> FloatTensor<Self> {
        let Some(precision) = supported(precision, &[&a, &b]) else {
            let (a, b) = trans.apply::<Self>(a, b);
            return Self::float_matmul(a, b);
        };
        let (a, b) = (a.to_contiguous(), b.to_contiguous());
        let (left, right) = (matrix(&a, trans.a), matrix(&b, trans.b));
        let shape = [left.rows(), right.columns()];
        FloatTensor::<Self>::from_data(TensorData::new(phalanx_matmul::matmul(left, right, precision, None), shape))
    }

    fn fused_dense(
        x: FloatTensor<Self>,
        kernel: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        relu: bool,
        precision: Precision,
    ) -> FloatTensor<Self> {
        let Some(precision) = supported(precision, &[&x, &kernel, &bias]) else {
            return fused_dense::by_burn::<Self>(x, kernel, bias, relu, precision);
        };
        let (x, kernel, bias) = (x.to_contiguous(), kernel.to_contiguous(), bias.to_contiguous());
        let (left, right) = (matrix(&x, false), matrix(&kernel, false));
        let shape = [left.rows(), right.columns()];
        let finish = Finish { bias: bias.as_slice().unwrap_or_default(), relu };
        let sums = phalanx_matmul::matmul(left, right, precision, Some(finish));
        FloatTensor::<Self>::from_data(TensorData::new(sums, shape))
    }

    fn through_relu(gradient: FloatTensor<Self>, output: FloatTensor<Self>) -> FloatTensor<Self> {
        if [gradient.dtype(), output.dtype()] != [DType::F32; 2] {
            return Self::relu_backward(output, gradient);
        }
        let output = output.to_contiguous();
        // In place, unless the memory is shared; a second handle here would share it.
        let mut gradient = gradient.into_data();
        let numbers = gradient.as_mut_slice::<f32>().unwrap_or_default();
        fused_dense::relu_backward(numbers, output.as_slice().unwrap_or_default());
        FloatTensor::<Self>::from_data(gradient)
    }

    fn column_sums(gradient: FloatTensor<Self>) -> FloatTensor<Self> {
        if gradient.dtype() != DType::F32 {
            return fused_dense::column_sums_by_burn::<Self>(gradient);
        }
        let gradient = gradient.to_contiguous();
        let columns = gradient.layout().shape()[1];
        let sums = fused_dense::column_sums(gradient.as_slice().unwrap_or_default(), columns);
        FloatTensor::<Self>::from_data(TensorData::new(sums, [columns]))
    }
}

/// Returns the precision that our kernels use for these tensors, or `None` if they cannot be used.
fn supported(precision: Precision, tensors: &[&FloatTensor<Flex>]) -> Option<Precision> {
    let precision = if is_supported(precision) { precision } else { Precision::F32 };
    let are_floats = tensors.iter().all(|tensor| tensor.dtype() == DType::F32);
    (are_floats && is_supported(precision)).then_some(precision)
}

fn matrix(tensor: &FloatTensor<Flex>, transpose: bool) -> Matrix<'_> {
    let shape = tensor.layout().shape();
    let matrix = Matrix::new(tensor.as_slice::<f32>().unwrap_or_default(), shape[0], shape[1]);
    if transpose { matrix.transposed() } else { matrix }
}

impl<B: MatmulBackend, C: CheckpointStrategy> MatmulBackend for Autodiff<B, C> {
    fn matmul(a: FloatTensor<Self>, b: FloatTensor<Self>, trans: Trans, precision: Precision) -> FloatTensor<Self> {
        // Only the backward pass has transposed factors. Transposing them first keeps one backward implementation.
        let (a, b) = trans.apply::<Self>(a, b);
        let (a_learns, b_learns) = (a.is_tracked(), b.is_tracked());
        match MatmulOp.prepare::<C>([a.node(), b.node()]).compute_bound().stateful() {
            OpsKind::Tracked(mut prepared) => {
                let kept_a = b_learns.then(|| prepared.checkpoint(&a));
                let kept_b = a_learns.then(|| prepared.checkpoint(&b));
                let product = B::matmul(a.into_primitive(), b.into_primitive(), Trans::NONE, precision);
                prepared.finish((kept_a, kept_b, precision), product)
            }
            OpsKind::UnTracked(prepared) => {
                prepared.finish(B::matmul(a.into_primitive(), b.into_primitive(), Trans::NONE, precision))
            }
        }
    }

    fn fused_dense(
        x: FloatTensor<Self>,
        kernel: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        relu: bool,
        precision: Precision,
    ) -> FloatTensor<Self> {
        fused_dense::tracked::<B, C>(x, kernel, bias, relu, precision)
    }
}

#[derive(Debug)]
struct MatmulOp;

impl<B: MatmulBackend> Backward<B, 2> for MatmulOp {
    /// Each factor, if the gradient of the other one needs it, and the precision.
    type State = (Option<NodeId>, Option<NodeId>, Precision);

    fn backward(self, ops: Ops<Self::State, 2>, gradients: &mut Gradients, kept: &mut Checkpointer) {
        let (a, b, precision) = ops.state;
        let a: Option<FloatTensor<B>> = a.map(|a| kept.retrieve_node_output(a));
        let b: Option<FloatTensor<B>> = b.map(|b| kept.retrieve_node_output(b));
        binary::<B, _, _>(
            ops.parents,
            ops.node,
            gradients,
            |gradient| match b {
                Some(b) => B::matmul(gradient, b, Trans::B, precision),
                None => gradient,
            },
            |gradient| match a {
                Some(a) => B::matmul(a, gradient, Trans::A, precision),
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

    /// Returns the product, and the gradients of a weighted sum over it.
    fn with([m, k, n]: [usize; 3], product: impl Fn(Tensor<2>, Tensor<2>) -> Tensor<2>) -> [TensorData; 3] {
        // Not the device's generator, which other tests use at the same time.
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
    fn products_and_gradients_match_burn() {
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
            // Each factor keeps eight bits; the error of a sum grows with the square root of its length.
            let bound = 0.02 * (shape.iter().max().copied().unwrap_or(1) as f32).sqrt();
            for (rounded, exact) in rounded.iter().zip(&exact) {
                rounded.assert_approx_eq::<f32>(exact, Tolerance::absolute(bound));
            }
        }
    }

    #[test]
    fn factors_may_be_transposed_and_need_no_gradient() {
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
