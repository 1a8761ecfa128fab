//! Matrix multiplication in 32-bit floats, for the layers of a model: forward, and both gradients.
//!
//! Why not a library: the one that Burn uses packs both sides of every product and takes twice as long where the right
//! one is transposed, and no maintained one multiplies in bfloat16 on CPUs that can (docs/decisions/017).
//!
//! [`matmul`] computes `a · b` for row-major `a` and `b`, either of them transposed on the fly. It needs a CPU with
//! AVX-512 ([`is_supported`]); [`Precision::Bf16`] needs one more instruction.
//!
//! ```
//! use phalanx_matmul::{Matrix, Precision, is_supported, matmul};
//!
//! let (a, b) = ([1.0, 2.0, 3.0, 4.0], [1.0, 0.0, 0.0, 2.0]);
//! if is_supported(Precision::F32) {
//!     let both = matmul(Matrix::new(&a, 2, 2), Matrix::new(&b, 2, 2), Precision::F32, None);
//!     assert_eq!(both, [1.0, 4.0, 3.0, 8.0]);
//! }
//! ```
//!
//! Invariants: the same operands give the same bits with any number of threads; NaN stays NaN.

mod matrix;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use matrix::Matrix;

/// The precision to which factors are rounded before they are multiplied. Sums are 32-bit floats either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// Factors are not rounded.
    #[default]
    F32,
    /// Factors are rounded to bfloat16: the range of 32-bit floats, and 8 bits of precision; at most twice as fast.
    Bf16,
}

/// Whether this CPU has the instructions that [`matmul`] needs.
#[must_use]
pub fn is_supported(precision: Precision) -> bool {
    #[cfg(target_arch = "x86_64")]
    return x86::Kernel::detect(precision).is_some();
    #[cfg(not(target_arch = "x86_64"))]
    return {
        let _ = precision;
        false
    };
}

/// Operations that are fused into a product: a separate pass would read and write all numbers again.
#[derive(Clone, Copy, Debug)]
pub struct Finish<'a> {
    /// Added to every row; one for each column.
    pub bias: &'a [f32],
    /// Whether negative sums then become 0.
    pub relu: bool,
}

/// Computes `a · b`, row-major, with the fused operations of `finish`.
///
/// ```
/// use phalanx_matmul::{Finish, Matrix, Precision, is_supported, matmul};
///
/// let (a, b) = ([1.0, 2.0, 3.0, 4.0], [1.0, 0.0, 0.0, 2.0]);
/// if is_supported(Precision::F32) {
///     let finish = Finish { bias: &[-2.0, 1.0], relu: true };
///     let sums = matmul(Matrix::new(&a, 2, 2), Matrix::new(&b, 2, 2), Precision::F32, Some(finish));
///     assert_eq!(sums, [0.0, 5.0, 1.0, 9.0]);
/// }
/// ```
///
/// # Panics
/// When the shapes do not fit together, or the CPU is not [supported](is_supported).
#[must_use]
pub fn matmul(a: Matrix<'_>, b: Matrix<'_>, precision: Precision, finish: Option<Finish<'_>>) -> Vec<f32> {
    #[cfg(target_arch = "x86_64")]
    if let Some(kernel) = x86::Kernel::detect(precision) {
        return x86::matmul(a, b, kernel, finish);
    }
    let _ = (a, b, precision, finish);
    panic!("this CPU has no AVX-512");
}
