//! No kernel allocates memory.

#![allow(unsafe_code)]

use crate::support::{numbers, with_threads};
use phalanx_matmul::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, which counts what each thread asks for.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: the system's allocator keeps its promises; counting changes nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that ends may allocate after its counter is gone.
        let _ = COUNT.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller promises what the system's allocator needs.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Checks that work on the calling thread asks for no memory.
#[track_caller]
fn without_allocation(work: impl FnOnce()) {
    let before = COUNT.get();
    work();
    assert_eq!(COUNT.get() - before, 0, "allocations");
}

#[test]
fn products_and_convolutions() {
    with_threads(1, || {
        for level in Level::all() {
            for precision in [Precision::F32, Precision::Bf16] {
                let (a, b, mut out) = (numbers(60 * 300, 1), numbers(300 * 90, 2), numbers(60 * 90, 3));
                let mut scratch = vec![0.0; matmul_scratch(level, precision, 60, 300, 90)];
                let b = Matrix::new(&b, 90, 300).transposed();
                without_allocation(|| {
                    let bias = Some(&a[..90]);
                    let epilogue = Epilogue { bias, activation: Activation::Tanh, ..Epilogue::default() };
                    matmul_into(level, precision, Matrix::new(&a, 60, 300), b, epilogue, &mut out, &mut scratch);
                });
            }
            let image = Image { batch: 3, height: 12, width: 12, channels: 4 };
            let window = Window::new([3, 3], [2, 2]).same([12, 12]).expect("padding");
            let conv = Conv2d::new(image, window, 20, 1).expect("a convolution");
            let outputs = conv.output().count().expect("a count");
            let (mut x, mut kernel, mut y) =
                (numbers(3 * 12 * 12 * 4, 1), numbers(conv.kernel_len(), 2), numbers(outputs, 3));
            let mut scratch = vec![0.0; conv.scratch(level)];
            without_allocation(|| {
                conv.forward(level, &x, &kernel, None, Activation::Relu, &mut y, &mut scratch);
                conv.input_gradient(level, &y, &kernel, &mut x, &mut scratch);
                conv.kernel_gradient(level, &x, &y, &mut kernel, &mut scratch);
            });
            let pool = Pool2d::new(image, Window::new([2, 2], [2, 2])).expect("pooling");
            let mut places = vec![0; 3 * 6 * 6 * 4];
            let mut y = numbers(places.len(), 4);
            without_allocation(|| {
                pool.max(level, &x, &mut y, &mut places);
                pool.max_gradient(level, &y, &places, &mut x);
                pool.mean(level, &x, &mut y);
                pool.mean_gradient(level, &y, &mut x);
                global_mean(level, image, &x, &mut y[..12]);
                global_mean_gradient(level, image, &y[..12], &mut x);
            });
        }
    });
}

#[test]
fn rows_and_fields() {
    with_threads(1, || {
        for level in Level::all() {
            let (x, ids, mut y) = (numbers(40 * 60, 1), vec![3; 240], numbers(40 * 60, 2));
            let (mut losses, mut dx) = (vec![0.0; 240], numbers(40 * 60, 4));
            let [mut a, mut b, mut c, mut d] = [(); 4].map(|()| vec![1.0; 60]);
            let (rows, mut scratch) = (vec![1; 150], vec![0; 2000]);
            without_allocation(|| {
                Activation::Gelu.apply(level, &mut y);
                Activation::Gelu.gradient(level, &x, &y, &mut dx);
                softmax(level, 60, &x, &mut y);
                softmax_gradient(level, 60, &y, &x, &mut dx);
                let outputs = (Some(&mut losses[..]), Some(&mut dx[..]));
                softmax_cross_entropy(level, 10, &x, Classes::Ids(&ids), Scale { all: 1.0, each: None }, outputs);
                sigmoid_cross_entropy(
                    level,
                    60,
                    &x,
                    &y,
                    Scale { all: 1.0, each: None },
                    (Some(&mut losses[..40]), None),
                );
                let norm = BatchNorm { channels: 60, epsilon: 0.1, gamma: None, beta: None };
                norm.statistics(level, &x, &mut a, &mut b);
                norm.forward(level, &x, &a, &b, &mut y);
                norm.gradient(level, (&x, &a, &b), &y, Some(&mut dx), (&mut c, &mut d));
                let norm = LayerNorm { columns: 60, epsilon: 0.1, gamma: None, beta: None };
                norm.forward(level, &x, &mut y, &mut losses[..80]);
                norm.gradient(level, (&x, &losses[..80]), &y, &mut dx, (&mut c, &mut d));
                gather(16, &x, &rows, (15, 240), &mut y);
                row_sums(level, 16, &rows, (15, 240), &y, &mut dx, &mut scratch);
                let bags = Bags { rows: &rows, starts: &[0, 50, 150], weights: None, combiner: Combiner::Mean };
                bags.forward(level, 16, &x, &mut y[..32]);
                bags.gradient(level, 16, &x[..32], &mut dx, &mut scratch);
                let fields = Fields { fields: 15, dim: 16 };
                fields.factorization(level, &x, &mut losses[..10]);
                fields.factorization_gradient(level, &x, &losses[..10], &mut dx);
                fields.dots(level, &x, &mut y[..1050]);
                fields.dots_gradient(level, &x, &y[..1050], &mut dx);
                cross(level, &x, &x, &x, &mut y);
                cross_gradient(level, (&x, &x), &x, &mut dx, &mut y);
                Dropout { seed: 1, rate: 0.5 }.apply(level, &x, &mut y);
                relu_gradient_sums(level, &x, &mut dx, &mut a);
                clip_by_norm(level, 1.0, &mut [&mut dx, &mut y]);
                add_scaled(level, sum(level, &x) as f32, &x, &mut y);
            });
        }
    });
}
