//! Numeric kernels on slices, for the step of a model on the CPU: forward and backward.
//!
//! | kernels | items |
//! | --- | --- |
//! | matrix products, in 32-bit floats and bfloat16 | [`matmul_into`], [`matmul_scratch`], [`Matrix`], [`Precision`], [`Epilogue`] |
//! | convolution, channels last | [`Conv2d`], [`Image`], [`Window`] |
//! | pooling | [`Pool2d`], [`global_mean`], [`global_mean_gradient`] |
//! | activation functions | [`Activation`] |
//! | softmax and cross-entropies | [`softmax`], [`softmax_gradient`], [`softmax_cross_entropy`], [`sigmoid_cross_entropy`] |
//! | normalization | [`BatchNorm`], [`LayerNorm`] |
//! | embeddings | [`gather`], [`row_sums`], [`Bags`] |
//! | interactions | [`Fields`] (factorization machine, dot products of pairs), [`cross`], [`cross_gradient`] |
//! | dropout | [`Dropout`] |
//! | sums and norms | [`sum`], [`squared_norm`], [`column_sums`], [`relu_gradient_sums`], [`scale`], [`add_scaled`], [`clip_by_norm`] |
//!
//! Every kernel takes a [`Level`], the instruction set to use: AVX-512, AVX2 with FMA, or what every CPU has. None
//! allocates: what a kernel needs beyond its outputs is passed in, and a function tells how much that is. Work is split over
//! the threads of rayon's current pool.
//!
//! Invariants: the same operands give the same bits with any number of threads; NaN stays NaN; slices that do not fit
//! together panic before anything is read or written.
//!
//! Why not a library: the one that Burn uses packs both sides of every product and takes twice as long where the right
//! one is transposed, and no maintained one multiplies in bfloat16 on CPUs that can (docs/decisions/017).

#![allow(clippy::needless_range_loop, reason = "loops over the lanes of several arrays become vectors")]

mod activation;
mod blocks;
mod conv;
mod dropout;
mod embedding;
mod entropy;
mod image;
mod interaction;
mod lanes;
mod level;
mod math;
mod matrix;
mod norm;
mod pack;
mod parallel;
mod pool;
mod product;
mod reduce;
mod softmax;
mod tile;

pub use activation::Activation;
pub use conv::Conv2d;
pub use dropout::Dropout;
pub use embedding::{Bags, Combiner, gather, row_sums, row_sums_scratch};
pub use entropy::{Classes, Scale, sigmoid_cross_entropy, softmax_cross_entropy};
pub use image::{Image, Window};
pub use interaction::{Fields, cross, cross_gradient};
pub use level::Level;
pub use matrix::Matrix;
pub use norm::{BatchNorm, LayerNorm};
pub use pool::{Pool2d, global_mean, global_mean_gradient};
pub use product::{Epilogue, matmul_into, matmul_scratch};
pub use reduce::{add_scaled, clip_by_norm, column_sums, relu_gradient_sums, scale, squared_norm, sum};
pub use softmax::{softmax, softmax_gradient};

/// The precision to which factors are rounded before they are multiplied. Sums are 32-bit floats either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// Factors are not rounded.
    #[default]
    F32,
    /// Factors are rounded to bfloat16: the range of 32-bit floats, and 8 bits of precision; at most twice as fast.
    Bf16,
}
/// Returns whether this CPU has instructions that make [`matmul`] fast: AVX2 with FMA, and for [`Precision::Bf16`] AVX-512 with
/// bfloat16. Without the latter, factors are not rounded.
#[must_use]
pub fn is_supported(precision: Precision) -> bool {
    let level = Level::detect();
    level != Level::PORTABLE && (precision == Precision::F32 || level.has_bf16())
}

/// A bias and perhaps a ReLU, fused into [`matmul`].
#[derive(Clone, Copy, Debug)]
pub struct Finish<'a> {
    /// Added to every row; one for each column.
    pub bias: &'a [f32],
    /// Whether negative sums then become 0.
    pub relu: bool,
}

/// Computes `a · b`, row-major, into memory of its own, as [`matmul_into`] does at the fastest level.
///
/// ```
/// use phalanx_matmul::{Finish, Matrix, Precision, matmul};
///
/// let (a, b) = ([1.0, 2.0, 3.0, 4.0], [1.0, 0.0, 0.0, 2.0]);
/// let finish = Finish { bias: &[-2.0, 1.0], relu: true };
/// let sums = matmul(Matrix::new(&a, 2, 2), Matrix::new(&b, 2, 2), Precision::F32, Some(finish));
/// assert_eq!(sums, [0.0, 5.0, 1.0, 9.0]);
/// ```
///
/// # Panics
/// When the shapes do not fit together.
#[must_use]
pub fn matmul(a: Matrix<'_>, b: Matrix<'_>, precision: Precision, finish: Option<Finish<'_>>) -> Vec<f32> {
    let epilogue = finish.map_or(Epilogue::default(), |Finish { bias, relu }| {
        let activation = if relu { Activation::Relu } else { Activation::Linear };
        Epilogue { bias: Some(bias), activation, ..Epilogue::default() }
    });
    product::matmul_new(a, b, precision, epilogue)
}
