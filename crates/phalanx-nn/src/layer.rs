//! A layer's sums in one step: between the product, the bias and ReLU every number would go to memory and back.

use crate::product::{Products, Turns};
use crate::threads::WORTH_SHARING;
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

/// Sums of a layer in one step: the product, the bias added to every row, and what is below 0 set to 0 where `relu` says
/// so. The gradients are those of these steps one by one.
///
/// ```
/// use phalanx_nn::{Precision, burn::tensor::Tensor, default_device, layer};
///
/// let x = Tensor::<2>::from_floats([[1.0, 2.0]], &default_device());
/// let kernel = Tensor::<2>::from_floats([[3.0, 0.0], [4.0, -1.0]], &default_device());
/// let bias = Tensor::<1>::from_floats([0.5, 0.5], &default_device());
/// let sums = layer(x, kernel, bias, true, Precision::F32);
/// assert_eq!(sums.into_data().try_to_vec::<f32>().unwrap(), [11.5, 0.0]);
/// ```
///
/// # Panics
/// When the shapes do not fit together, as Burn's own steps do.
#[must_use]
pub fn layer(x: Tensor<2>, kernel: Tensor<2>, bias: Tensor<1>, relu: bool, precision: Precision) -> Tensor<2> {
    let (x, kernel, bias) = (x.into_dispatch(), kernel.into_dispatch(), bias.into_dispatch());
    Tensor::from_dispatch(<Dispatch as Products>::layer(x, kernel, bias, relu, precision))
}

/// By the library's own steps.
pub(crate) fn by_library<L: Products>(
    x: FloatTensor<L>,
    kernel: FloatTensor<L>,
    bias: FloatTensor<L>,
    relu: bool,
    precision: Precision,
) -> FloatTensor<L> {
    let columns = bias.shape()[0];
    let product = L::product(x, kernel, Turns::NONE, precision);
    let sums = L::float_add(product, L::float_reshape(bias, Shape::new([1, columns])));
    if relu { L::relu(sums) } else { sums }
}

pub(crate) fn column_sums_by_library<L: Backend>(gradient: FloatTensor<L>) -> FloatTensor<L> {
    let columns = gradient.shape()[1];
    L::float_reshape(L::float_sum_dim(gradient, 0), Shape::new([columns]))
}

/// Nothing goes back where 0 came out; what is not a number lets it pass, as it does in Burn.
pub(crate) fn stop_at_zeros(gradient: &mut [f32], output: &[f32]) {
    let stop = |(gradient, output): (&mut [f32], &[f32])| {
        gradient.iter_mut().zip(output).for_each(|(gradient, &x)| *gradient = if x <= 0.0 { 0.0 } else { *gradient });
    };
    gradient.par_chunks_mut(WORTH_SHARING).zip(output.par_chunks(WORTH_SHARING)).for_each(stop);
}

/// Row by row for every column, so that sums do not depend on how many threads there are.
pub(crate) fn column_sums(numbers: &[f32], columns: usize) -> Vec<f32> {
    let mut sums = vec![0.0; columns];
    let threads = if numbers.len() < WORTH_SHARING { 1 } else { rayon::current_num_threads() };
    let share = columns.div_ceil(threads).max(1);
    sums.par_chunks_mut(share).enumerate().for_each(|(part, sums)| {
        for row in numbers.chunks_exact(columns.max(1)) {
            sums.iter_mut().zip(&row[part * share..]).for_each(|(sum, x)| *sum += x);
        }
    });
    sums
}

/// The same where gradients may be wanted.
pub(crate) fn tracked<B: Products, C: CheckpointStrategy>(
    x: FloatTensor<Autodiff<B, C>>,
    kernel: FloatTensor<Autodiff<B, C>>,
    bias: FloatTensor<Autodiff<B, C>>,
    relu: bool,
    precision: Precision,
) -> FloatTensor<Autodiff<B, C>> {
    let (x_learns, kernel_learns) = (x.is_tracked(), kernel.is_tracked());
    match Layer.prepare::<C>([x.node(), kernel.node(), bias.node()]).compute_bound().stateful() {
        OpsKind::Tracked(mut prepared) => {
            let kept_x = kernel_learns.then(|| prepared.checkpoint(&x));
            let kept_kernel = x_learns.then(|| prepared.checkpoint(&kernel));
            let sums = B::layer(x.into_primitive(), kernel.into_primitive(), bias.into_primitive(), relu, precision);
            let rectified = relu.then(|| sums.clone());
            prepared.finish(Kept { x: kept_x, kernel: kept_kernel, rectified, precision }, sums)
        }
        OpsKind::UnTracked(prepared) => {
            let (x, kernel, bias) = (x.into_primitive(), kernel.into_primitive(), bias.into_primitive());
            prepared.finish(B::layer(x, kernel, bias, relu, precision))
        }
    }
}

#[derive(Debug)]
struct Layer;

/// What the gradients of a layer need.
#[derive(Clone, Debug)]
struct Kept<B: Backend> {
    x: Option<NodeId>,
    kernel: Option<NodeId>,
    /// What came out, where something was set to 0.
    rectified: Option<FloatTensor<B>>,
    precision: Precision,
}

impl<B: Products> Backward<B, 3> for Layer {
    type State = Kept<B>;

    fn backward(self, ops: Ops<Self::State, 3>, gradients: &mut Gradients, checkpointer: &mut Checkpointer) {
        let Kept { x, kernel, rectified, precision } = ops.state;
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
            gradients.register::<B>(node.id, B::product(x, gradient.clone(), Turns::A, precision));
        }
        if let (Some(node), Some(kernel)) = (of_x, kernel) {
            let kernel = checkpointer.retrieve_node_output(kernel);
            gradients.register::<B>(node.id, B::product(gradient, kernel, Turns::B, precision));
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
        // Not the device's: other tests draw from it at the same time.
        let numbers = Initializer::RandomUniform { low: -2.0, high: 2.0 }.values(&shape, seed);
        Tensor::from_data(TensorData::new(numbers, shape), &crate::default_device())
    }

    /// What comes out, and the gradients of the input, the kernel and the bias.
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
    fn a_layer_is_the_same_as_its_steps_to_the_bit() {
        same(
            |x, kernel, bias| layer(x, kernel, bias, false, Precision::F32),
            |x, kernel, bias| matmul(x, kernel, Precision::F32) + bias.unsqueeze(),
        );
        same(
            |x, kernel, bias| layer(x, kernel, bias, true, Precision::F32),
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
                stop_at_zeros(&mut gradient, &output);
                (column_sums(&gradient, 130), gradient)
            })
        };
        assert_eq!(with(1), with(3));
        assert_eq!(with(1).1.iter().filter(|&&x| x == 0.0).count(), numbers.iter().filter(|&&x| x <= 0.0).count());
    }

    #[test]
    fn only_what_learns_has_a_gradient() {
        let (x, kernel, bias) = (random([4, 3], 1), random([3, 2], 2).require_grad(), random([2], 3));
        let gradients = layer(x.clone(), kernel.clone(), bias.clone(), true, Precision::F32).sum().backward();
        assert!(kernel.grad(&gradients).is_some() && x.grad(&gradients).is_none() && bias.grad(&gradients).is_none());
        let (x, bias) = (x.require_grad(), bias.require_grad());
        let gradients = layer(x.clone(), kernel.detach(), bias.clone(), false, Precision::F32).sum().backward();
        assert!(x.grad(&gradients).is_some());
        assert_eq!(bias.grad(&gradients).unwrap().into_data().try_to_vec::<f32>().unwrap(), [4.0, 4.0]);
    }
}
