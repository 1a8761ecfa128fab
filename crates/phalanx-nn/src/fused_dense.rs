//! A dense layer in one operation. As three operations (product, bias, ReLU) it would write every number to memory and
//! read it back in between.

use crate::matmul::{MatmulBackend, Trans};
use crate::threads::PARALLEL_THRESHOLD;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::autodiff::{Autodiff, NodeId};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, TensorMetadata};
use burn::tensor::{Shape, Tensor};
use phalanx_matmul::Precision;
use rayon::prelude::*;

/// Computes a dense layer in one operation: multiplies, adds the bias to every row and, if `relu` is set, applies ReLU.
/// Outputs and gradients are the same as those of the separate operations.
///
/// ```
/// use phalanx_nn::{Precision, burn::tensor::Tensor, default_device, fused_dense};
///
/// let x = Tensor::<2>::from_floats([[1.0, 2.0]], &default_device());
/// let kernel = Tensor::<2>::from_floats([[3.0, 0.0], [4.0, -1.0]], &default_device());
/// let bias = Tensor::<1>::from_floats([0.5, 0.5], &default_device());
/// let sums = fused_dense(x, kernel, bias, true, Precision::F32);
/// assert_eq!(sums.into_data().try_to_vec::<f32>().unwrap(), [11.5, 0.0]);
/// ```
///
/// # Panics
/// If the shapes do not match, as Burn's own operations do.
#[must_use]
pub fn fused_dense(x: Tensor<2>, kernel: Tensor<2>, bias: Tensor<1>, relu: bool, precision: Precision) -> Tensor<2> {
    let (x, kernel, bias) = (x.into_dispatch(), kernel.into_dispatch(), bias.into_dispatch());
    Tensor::from_dispatch(<Dispatch as MatmulBackend>::fused_dense(x, kernel, bias, relu, precision))
}

/// The same with Burn's own operations.
pub(crate) fn by_burn<L: MatmulBackend>(
    x: FloatTensor<L>,
    kernel: FloatTensor<L>,
    bias: FloatTensor<L>,
    relu: bool,
    precision: Precision,
) -> FloatTensor<L> {
    let columns = bias.shape()[0];
    let product = L::matmul(x, kernel, Trans::NONE, precision);
    let sums = L::float_add(product, L::float_reshape(bias, Shape::new([1, columns])));
    if relu { L::relu(sums) } else { sums }
}

pub(crate) fn column_sums_by_burn<L: Backend>(gradient: FloatTensor<L>) -> FloatTensor<L> {
    let columns = gradient.shape()[1];
    L::float_reshape(L::float_sum_dim(gradient, 0), Shape::new([columns]))
}

/// Zeroes the gradient where the output is 0. NaN outputs keep their gradient, as in Burn.
pub(crate) fn relu_backward(gradient: &mut [f32], output: &[f32]) {
    let stop = |(gradient, output): (&mut [f32], &[f32])| {
        gradient.iter_mut().zip(output).for_each(|(gradient, &x)| *gradient = if x <= 0.0 { 0.0 } else { *gradient });
    };
    gradient.par_chunks_mut(PARALLEL_THRESHOLD).zip(output.par_chunks(PARALLEL_THRESHOLD)).for_each(stop);
}

/// Sums every column from the first row to the last, so that the result does not depend on the number of threads.
pub(crate) fn column_sums(numbers: &[f32], columns: usize) -> Vec<f32> {
    let mut sums = vec![0.0; columns];
    let threads = if numbers.len() < PARALLEL_THRESHOLD { 1 } else { rayon::current_num_threads() };
    let chunk = columns.div_ceil(threads).max(1);
    sums.par_chunks_mut(chunk).enumerate().for_each(|(part, sums)| {
        for row in numbers.chunks_exact(columns.max(1)) {
            sums.iter_mut().zip(&row[part * chunk..]).for_each(|(sum, x)| *sum += x);
        }
    });
    sums
}

/// The same, tracked for automatic differentiation.
pub(crate) fn tracked<B: MatmulBackend, C: CheckpointStrategy>(
    x: FloatTensor<Autodiff<B, C>>,
    kernel: FloatTensor<Autodiff<B, C>>,
    bias: FloatTensor<Autodiff<B, C>>,
    relu: bool,
    precision: Precision,
) -> FloatTensor<Autodiff<B, C>> {
    let (x_learns, kernel_learns) = (x.is_tracked(), kernel.is_tracked());
    match FusedDenseOp.prepare::<C>([x.node(), kernel.node(), bias.node()]).compute_bound().stateful() {
        OpsKind::Tracked(mut prepared) => {
            let kept_x = kernel_learns.then(|| prepared.checkpoint(&x));
            let kept_kernel = x_learns.then(|| prepared.checkpoint(&kernel));
            let sums =
                B::fused_dense(x.into_primitive(), kernel.into_primitive(), bias.into_primitive(), relu, precision);
            let rectified = relu.then(|| sums.clone());
            prepared.finish(SavedState { x: kept_x, kernel: kept_kernel, rectified, precision }, sums)
        }
        OpsKind::UnTracked(prepared) => {
            let (x, kernel, bias) = (x.into_primitive(), kernel.into_primitive(), bias.into_primitive());
            prepared.finish(B::fused_dense(x, kernel, bias, relu, precision))
        }
    }
}

#[derive(Debug)]
struct FusedDenseOp;

/// The state that the backward pass needs.
#[derive(Clone, Debug)]
struct SavedState<B: Backend> {
    x: Option<NodeId>,
    kernel: Option<NodeId>,
    /// The output, if ReLU was applied.
    rectified: Option<FloatTensor<B>>,
    precision: Precision,
}

impl<B: MatmulBackend> Backward<B, 3> for FusedDenseOp {
    type State = SavedState<B>;

    fn backward(self, ops: Ops<Self::State, 3>, gradients: &mut Gradients, checkpointer: &mut Checkpointer) {
        let SavedState { x, kernel, rectified, precision } = ops.state;
        let mut gradient = gradients.consume::<B>(&ops.node);
        if let Some(rectified) = rectified {
            gradient = B::through_relu(gradient, rectified);
        }
        let [of_x, of_kernel, of_bias] = ops.parents;
        if let Some(node) = of_bias {
            gradients.register::<B>(node.id, B::column_sums(gradient.clone()));
        }
        if let (Some(node), Some(x)) = (of_kernel, x) {
            let x = checkpointer.retrieve_node_output(x);
            gradients.register::<B>(node.id, B::matmul(x, gradient.clone(), Trans::A, precision));
        }
        if let (Some(node), Some(kernel)) = (of_x, kernel) {
            let kernel = checkpointer.retrieve_node_output(kernel);
            gradients.register::<B>(node.id, B::matmul(gradient, kernel, Trans::B, precision));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matmul;
    use crate::model::Initializer;
    use burn::tensor::TensorData;
    use burn::tensor::activation::relu;

    type Steps = fn(Tensor<2>, Tensor<2>, Tensor<1>) -> Tensor<2>;

    fn random<const D: usize>(shape: [usize; D], seed: u64) -> Tensor<D> {
        // Not the device's generator, which other tests use at the same time.
        let numbers = Initializer::RandomUniform { low: -2.0, high: 2.0 }.values(&shape, seed);
        Tensor::from_data(TensorData::new(numbers, shape), &crate::default_device())
    }

    /// Returns the output, and the gradients of the input, the kernel and the bias.
    fn all([rows, features, units]: [usize; 3], steps: Steps) -> [TensorData; 4] {
        let (x, kernel) = (random([rows, features], 1).require_grad(), random([features, units], 2).require_grad());
        let (bias, weights) = (random([units], 3).require_grad(), random([rows, units], 4));
        let sums = steps(x.clone(), kernel.clone(), bias.clone());
        let gradients = (sums.clone() * weights).sum().backward();
        let [x, kernel] = [x, kernel].map(|leaf| leaf.grad(&gradients).unwrap().into_data());
        [sums.into_data(), x, kernel, bias.grad(&gradients).unwrap().into_data()]
    }

    fn same(one: Steps, steps: Steps) {
        for shape in [[1, 1, 1], [3, 5, 2], [128, 784, 10], [17, 33, 47], [300, 800, 65], [40, 1, 300]] {
            assert_eq!(all(shape, one), all(shape, steps), "{shape:?}");
        }
    }

    #[test]
    fn a_layer_equals_its_separate_operations_to_the_bit() {
        same(
            |x, kernel, bias| fused_dense(x, kernel, bias, false, Precision::F32),
            |x, kernel, bias| matmul(x, kernel, Precision::F32) + bias.unsqueeze(),
        );
        same(
            |x, kernel, bias| fused_dense(x, kernel, bias, true, Precision::F32),
            |x, kernel, bias| relu(matmul(x, kernel, Precision::F32) + bias.unsqueeze()),
        );
    }

    #[test]
    fn threads_change_no_bit_of_a_gradient() {
        let numbers = Initializer::RandomUniform { low: -2.0, high: 2.0 }.values(&[700 * 130], 1);
        let with = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let mut gradient = numbers.clone();
                let output: Vec<f32> = numbers.iter().rev().map(|x| x.max(0.0)).collect();
                relu_backward(&mut gradient, &output);
                (column_sums(&gradient, 130), gradient)
            })
        };
        assert_eq!(with(1), with(3));
        assert_eq!(with(1).1.iter().filter(|&&x| x == 0.0).count(), numbers.iter().filter(|&&x| x <= 0.0).count());
    }

    #[test]
    fn only_tracked_tensors_have_a_gradient() {
        let (x, kernel, bias) = (random([4, 3], 1), random([3, 2], 2).require_grad(), random([2], 3));
        let gradients = fused_dense(x.clone(), kernel.clone(), bias.clone(), true, Precision::F32).sum().backward();
        assert!(kernel.grad(&gradients).is_some() && x.grad(&gradients).is_none() && bias.grad(&gradients).is_none());
        let (x, bias) = (x.require_grad(), bias.require_grad());
        let gradients = fused_dense(x.clone(), kernel.detach(), bias.clone(), false, Precision::F32).sum().backward();
        assert!(x.grad(&gradients).is_some());
        assert_eq!(bias.grad(&gradients).unwrap().into_data().try_to_vec::<f32>().unwrap(), [4.0, 4.0]);
    }
}
