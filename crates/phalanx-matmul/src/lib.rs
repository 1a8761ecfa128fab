//! Products of matrices of 32-bit floats, for the layers of a model: forward, and both gradients.
//!
//! Why not a library: the one that Burn uses packs both sides of every product and takes twice as long where the right
//! one is transposed, and none that is kept up multiplies in bfloat16 on processors that can (docs/decisions/017).
//!
//! [`product`] computes `a · b` for row-major `a` and `b`, either of them transposed on the way. Only processors with
//! AVX-512 are served; [`is_supported`] says whether this is one, and [`Precision::Bf16`] needs one instruction more.
//!
//! ```
//! use phalanx_matmul::{Matrix, Precision, is_supported, product};
//!
//! let (a, b) = ([1.0, 2.0, 3.0, 4.0], [1.0, 0.0, 0.0, 2.0]);
//! if is_supported(Precision::F32) {
//!     let both = product(Matrix::new(&a, 2, 2), Matrix::new(&b, 2, 2), Precision::F32, None);
//!     assert_eq!(both, [1.0, 4.0, 3.0, 8.0]);
//! }
//! ```
//!
//! Invariants: the same operands give the same bits, whatever the number of threads; what is not a number stays so.

mod matrix;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use matrix::Matrix;

/// What the factors are rounded to before they are multiplied. Sums are 32-bit floats either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// Not at all.
    #[default]
    F32,
    /// To bfloat16: the range of 32-bit floats, and 8 bits of precision; at most twice as fast.
    Bf16,
}

/// Whether this processor has what [`product`] needs.
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

/// What becomes of a product's numbers while they are at hand: another pass over them would read and write them all
/// again.
#[derive(Clone, Copy, Debug)]
pub struct Finish<'a> {
    /// Added to every row; as many as there are columns.
    pub bias: &'a [f32],
    /// Then what is below 0 becomes 0.
    pub relu: bool,
}

/// `a · b`, row-major, and what is made of it.
///
/// ```
/// use phalanx_matmul::{Finish, Matrix, Precision, is_supported, product};
///
/// let (a, b) = ([1.0, 2.0, 3.0, 4.0], [1.0, 0.0, 0.0, 2.0]);
/// if is_supported(Precision::F32) {
///     let finish = Finish { bias: &[-2.0, 1.0], relu: true };
///     let sums = product(Matrix::new(&a, 2, 2), Matrix::new(&b, 2, 2), Precision::F32, Some(finish));
///     assert_eq!(sums, [0.0, 5.0, 1.0, 9.0]);
/// }
/// ```
///
/// # Panics
/// When the shapes do not fit together, or the processor is not [supported](is_supported).
#[must_use]
pub fn product(a: Matrix<'_>, b: Matrix<'_>, precision: Precision, finish: Option<Finish<'_>>) -> Vec<f32> {
    #[cfg(target_arch = "x86_64")]
    if let Some(kernel) = x86::Kernel::detect(precision) {
        return x86::product(a, b, kernel, finish);
    }
    let _ = (a, b, precision, finish);
    panic!("this processor has no AVX-512");
}
