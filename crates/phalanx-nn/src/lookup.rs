//! Embedding lookup and concatenation in one operation, the first operation of a click model.
//!
//! Built from Burn's own operations it would copy every number three times in the forward and three times in the backward
//! pass, on one thread.

use crate::threads::PARALLEL_THRESHOLD;
use crate::uninit::{UninitWriter, fill_parallel};
use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind, binary};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::{DType, IndexingUpdateOp, Int, Shape, Slice, Tensor, TensorData};

/// Returns one row per example: the embedding rows at its share of `positions`, concatenated, followed by its `numbers`.
pub(crate) fn concat(unique: Tensor<2>, positions: Tensor<1, Int>, numbers: Tensor<2>) -> Tensor<2> {
    Tensor::from_dispatch(<Dispatch as LookupBackend>::concat(
        unique.into_dispatch(),
        positions.into_dispatch(),
        numbers.into_dispatch(),
    ))
}

/// The backend operations behind [`Rows::concat`](crate::Rows::concat).
#[backend_extension(Flex, Autodiff, Cube: cfg(any(feature = "vulkan", feature = "cuda")))]
#[allow(unreachable_pub, reason = "the code that the macro generates is public")]
pub trait LookupBackend: Backend {
    /// Looks up the rows of each example and concatenates them with its numbers.
    fn concat(unique: FloatTensor<Self>, positions: IntTensor<Self>, numbers: FloatTensor<Self>) -> FloatTensor<Self> {
        concat_by_burn::<Self>(unique, positions, numbers)
    }

    /// Computes the gradient of `count` rows of `dim` numbers: for each row the sum over its positions.
    fn row_sums(
        gradient: FloatTensor<Self>,
        positions: IntTensor<Self>,
        count: usize,
        dim: usize,
    ) -> FloatTensor<Self> {
        row_sums_by_burn::<Self>(gradient, positions, count, dim)
    }
}

fn concat_by_burn<L: Backend>(
    unique: FloatTensor<L>,
    positions: IntTensor<L>,
    numbers: FloatTensor<L>,
) -> FloatTensor<L> {
    let examples = numbers.shape()[0];
    let rows = L::float_select(unique, 0, positions);
    let wide = rows.shape().num_elements() / examples.max(1);
    L::float_cat(vec![L::float_reshape(rows, Shape::new([examples, wide])), numbers], 1)
}

fn row_sums_by_burn<L: Backend>(
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
impl LookupBackend for burn::backend::Cube {}

impl LookupBackend for Flex {
    fn concat(unique: FloatTensor<Self>, positions: IntTensor<Self>, numbers: FloatTensor<Self>) -> FloatTensor<Self> {
        if [unique.dtype(), numbers.dtype(), positions.dtype()] != [DType::F32, DType::F32, DType::I32] {
            return concat_by_burn::<Self>(unique, positions, numbers);
        }
        let (unique, positions, numbers) = (unique.to_contiguous(), positions.to_contiguous(), numbers.to_contiguous());
        let [examples, more] = [numbers.layout().shape()[0], numbers.layout().shape()[1]];
        let dim = unique.layout().shape()[1];
        let places = positions.as_slice::<i32>().unwrap_or_default();
        let (rows, numbers) = (floats(&unique), floats(&numbers));
        let each = places.len() / examples.max(1);
        let width = each * dim + more;
        let out = fill_parallel(examples * width, width, |example, out| {
            for &at in &places[example * each..][..each] {
                out.append(&rows[at as usize * dim..][..dim]);
            }
            out.append(&numbers[example * more..][..more]);
        });
        FloatTensor::<Self>::from_data(TensorData::new(out, [examples, width]))
    }

    fn row_sums(
        gradient: FloatTensor<Self>,
        positions: IntTensor<Self>,
        count: usize,
        dim: usize,
    ) -> FloatTensor<Self> {
        if [gradient.dtype(), positions.dtype()] != [DType::F32, DType::I32] {
            return row_sums_by_burn::<Self>(gradient, positions, count, dim);
        }
        let (gradient, positions) = (gradient.to_contiguous(), positions.to_contiguous());
        let [examples, width] = [gradient.layout().shape()[0], gradient.layout().shape()[1]];
        let places = positions.as_slice::<i32>().unwrap_or_default();
        let (numbers, each) = (floats(&gradient), places.len() / examples.max(1));
        let threads = if numbers.len() < PARALLEL_THRESHOLD { 1 } else { rayon::current_num_threads() };
        let rows = count.div_ceil(threads).max(1);
        // Every thread scans all positions and adds up those of its own rows, so the sums do not depend on the number of
        // threads.
        let out = fill_parallel(count * dim, rows * dim, |part, out| {
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

/// Adds `gradient` to the row at `at`. Rows are numbered in order of appearance, so most are appended here.
fn add(out: &mut UninitWriter<'_>, at: usize, gradient: &[f32]) {
    match out.written().get_mut(at..at + gradient.len()) {
        Some(row) => row.iter_mut().zip(gradient).for_each(|(sum, x)| *sum += x),
        None => {
            out.append_zeros_until(at);
            out.append(gradient);
        }
    }
}

fn floats(tensor: &FloatTensor<Flex>) -> &[f32] {
    tensor.as_slice::<f32>().unwrap_or_default()
}

impl<B: LookupBackend, C: CheckpointStrategy> LookupBackend for Autodiff<B, C> {
    fn concat(unique: FloatTensor<Self>, positions: IntTensor<Self>, numbers: FloatTensor<Self>) -> FloatTensor<Self> {
        let [count, dim] = unique.shape().dims();
        let state = SavedState::<B> { positions: positions.clone(), count, dim };
        let prepared = ConcatOp.prepare::<C>([unique.node(), numbers.node()]).compute_bound().stateful();
        let out = B::concat(unique.into_primitive(), positions, numbers.into_primitive());
        match prepared {
            OpsKind::Tracked(prepared) => prepared.finish(state, out),
            OpsKind::UnTracked(prepared) => prepared.finish(out),
        }
    }
}

#[derive(Debug)]
struct ConcatOp;

/// The state that the backward pass needs.
#[derive(Clone, Debug)]
struct SavedState<B: Backend> {
    positions: IntTensor<B>,
    count: usize,
    dim: usize,
}

impl<B: LookupBackend> Backward<B, 2> for ConcatOp {
    type State = SavedState<B>;

    fn backward(self, ops: Ops<Self::State, 2>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let SavedState { positions, count, dim } = ops.state;
        let ids = positions.shape()[0];
        binary::<B, _, _>(
            ops.parents,
            ops.node,
            gradients,
            |gradient| B::row_sums(gradient, positions, count, dim),
            |gradient| {
                let [examples, width] = gradient.shape().dims();
                B::float_slice(gradient, &[Slice::full(), Slice::from(ids / examples.max(1) * dim..width)])
            },
        );
    }
}
