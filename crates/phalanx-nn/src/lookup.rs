//! The rows of each example beside its numbers, in one step: what a click model starts with.
//!
//! Made of the library's own steps, every number of the batch's rows is copied three times on the way there and three on
//! the way back, by one thread.

use crate::blank::{Blank, in_parts};
use crate::threads::WORTH_SHARING;
use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind, binary};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::{DType, IndexingUpdateOp, Int, Shape, Slice, Tensor, TensorData};

/// For each row of `numbers` its share of the rows that `positions` name, side by side, and then itself.
pub(crate) fn beside(unique: Tensor<2>, positions: Tensor<1, Int>, numbers: Tensor<2>) -> Tensor<2> {
    Tensor::from_dispatch(<Dispatch as Lookups>::beside(
        unique.into_dispatch(),
        positions.into_dispatch(),
        numbers.into_dispatch(),
    ))
}

/// What a tensor library has to do for [`Rows::beside`](crate::Rows::beside).
#[backend_extension(Flex, Autodiff, Cube: cfg(any(feature = "vulkan", feature = "cuda")))]
#[allow(unreachable_pub, reason = "what the macro makes of it is public")]
pub trait Lookups: Backend {
    /// Rows and numbers, one example after the other.
    fn beside(unique: FloatTensor<Self>, positions: IntTensor<Self>, numbers: FloatTensor<Self>) -> FloatTensor<Self> {
        beside_by_library::<Self>(unique, positions, numbers)
    }

    /// The way back to `count` rows of `dim` numbers: each is the sum of what its places got.
    fn summed(gradient: FloatTensor<Self>, positions: IntTensor<Self>, count: usize, dim: usize) -> FloatTensor<Self> {
        summed_by_library::<Self>(gradient, positions, count, dim)
    }
}

fn beside_by_library<L: Backend>(
    unique: FloatTensor<L>,
    positions: IntTensor<L>,
    numbers: FloatTensor<L>,
) -> FloatTensor<L> {
    let examples = numbers.shape()[0];
    let rows = L::float_select(unique, 0, positions);
    let wide = rows.shape().num_elements() / examples.max(1);
    L::float_cat(vec![L::float_reshape(rows, Shape::new([examples, wide])), numbers], 1)
}

fn summed_by_library<L: Backend>(
    gradient: FloatTensor<L>,
    positions: IntTensor<L>,
    count: usize,
    dim: usize,
) -> FloatTensor<L> {
    let (examples, ids) = (gradient.shape()[0], positions.shape()[0]);
    let (device, dtype) = (gradient.device(), gradient.dtype());
    let of_rows = L::float_slice(gradient, &[Slice::full(), Slice::from(0..ids / examples.max(1) * dim)]);
    let of_rows = L::float_reshape(of_rows, Shape::new([ids, dim]));
    let zeros = L::float_zeros(Shape::new([count, dim]), &device, dtype.into());
    L::float_select_assign(zeros, 0, positions, of_rows, IndexingUpdateOp::Add)
}

#[cfg(any(feature = "vulkan", feature = "cuda"))]
impl Lookups for burn::backend::Cube {}

impl Lookups for Flex {
    fn beside(unique: FloatTensor<Self>, positions: IntTensor<Self>, numbers: FloatTensor<Self>) -> FloatTensor<Self> {
        if [unique.dtype(), numbers.dtype(), positions.dtype()] != [DType::F32, DType::F32, DType::I32] {
            return beside_by_library::<Self>(unique, positions, numbers);
        }
        let (unique, positions, numbers) = (unique.to_contiguous(), positions.to_contiguous(), numbers.to_contiguous());
        let [examples, more] = [numbers.layout().shape()[0], numbers.layout().shape()[1]];
        let dim = unique.layout().shape()[1];
        let places = positions.as_slice::<i32>().unwrap_or_default();
        let (rows, numbers) = (floats(&unique), floats(&numbers));
        let each = places.len() / examples.max(1);
        let width = each * dim + more;
        let out = in_parts(examples * width, width, |example, out| {
            for &at in &places[example * each..][..each] {
                out.append(&rows[at as usize * dim..][..dim]);
            }
            out.append(&numbers[example * more..][..more]);
        });
        FloatTensor::<Self>::from_data(TensorData::new(out, [examples, width]))
    }

    fn summed(gradient: FloatTensor<Self>, positions: IntTensor<Self>, count: usize, dim: usize) -> FloatTensor<Self> {
        if [gradient.dtype(), positions.dtype()] != [DType::F32, DType::I32] {
            return summed_by_library::<Self>(gradient, positions, count, dim);
        }
        let (gradient, positions) = (gradient.to_contiguous(), positions.to_contiguous());
        let [examples, width] = [gradient.layout().shape()[0], gradient.layout().shape()[1]];
        let places = positions.as_slice::<i32>().unwrap_or_default();
        let (numbers, each) = (floats(&gradient), places.len() / examples.max(1));
        let threads = if numbers.len() < WORTH_SHARING { 1 } else { rayon::current_num_threads() };
        let rows = count.div_ceil(threads).max(1);
        // Every thread looks at all places and takes those of its own rows: sums then do not depend on who is there.
        let out = in_parts(count * dim, rows * dim, |part, out| {
            for (of_example, places) in numbers.chunks_exact(width.max(1)).zip(places.chunks_exact(each.max(1))) {
                for (of_row, &at) in of_example.chunks_exact(dim).zip(places) {
                    let at = (at as usize).wrapping_sub(part * rows);
                    if at < rows {
                        add(out, at * dim, of_row);
                    }
                }
            }
        });
        FloatTensor::<Self>::from_data(TensorData::new(out, [count, dim]))
    }
}

/// Adds a row's share. Rows are numbered as they come up, so that most are written here for the first time.
fn add(out: &mut Blank<'_>, at: usize, share: &[f32]) {
    match out.written().get_mut(at..at + share.len()) {
        Some(row) => row.iter_mut().zip(share).for_each(|(sum, x)| *sum += x),
        None => {
            out.append_zeros_until(at);
            out.append(share);
        }
    }
}

fn floats(tensor: &FloatTensor<Flex>) -> &[f32] {
    tensor.as_slice::<f32>().unwrap_or_default()
}

impl<B: Lookups, C: CheckpointStrategy> Lookups for Autodiff<B, C> {
    fn beside(unique: FloatTensor<Self>, positions: IntTensor<Self>, numbers: FloatTensor<Self>) -> FloatTensor<Self> {
        let [count, dim] = unique.shape().dims();
        let back = Back::<B> { positions: positions.clone(), count, dim };
        let prepared = Beside.prepare::<C>([unique.node(), numbers.node()]).compute_bound().stateful();
        let out = B::beside(unique.into_primitive(), positions, numbers.into_primitive());
        match prepared {
            OpsKind::Tracked(prepared) => prepared.finish(back, out),
            OpsKind::UnTracked(prepared) => prepared.finish(out),
        }
    }
}

#[derive(Debug)]
struct Beside;

/// What the way back needs to know.
#[derive(Clone, Debug)]
struct Back<B: Backend> {
    positions: IntTensor<B>,
    count: usize,
    dim: usize,
}

impl<B: Lookups> Backward<B, 2> for Beside {
    type State = Back<B>;

    fn backward(self, ops: Ops<Self::State, 2>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let Back { positions, count, dim } = ops.state;
        let ids = positions.shape()[0];
        binary::<B, _, _>(
            ops.parents,
            ops.node,
            gradients,
            |gradient| B::summed(gradient, positions, count, dim),
            |gradient| {
                let [examples, width] = gradient.shape().dims();
                B::float_slice(gradient, &[Slice::full(), Slice::from(ids / examples.max(1) * dim..width)])
            },
        );
    }
}
