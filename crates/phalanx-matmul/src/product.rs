//! Matrix products into memory of the caller.

#![allow(unsafe_code)]

use crate::activation::relu_slope;
use crate::blocks::{self, Shared, uninit};
use crate::level::leveled;
use crate::parallel::{In, Out, by_rows, check, grain};
use crate::tile::Kernel;
use crate::{Activation, Level, Matrix, Precision, lanes};
use std::mem::MaybeUninit;

/// Operations that are fused into a product: a separate pass would read and write all numbers again. They are applied in the
/// order of the fields; of the last two, one at most.
///
/// ```
/// use phalanx_matmul::{Activation, Epilogue};
///
/// let dense = Epilogue { bias: Some(&[0.5]), activation: Activation::Relu, ..Epilogue::default() };
/// assert!(!dense.add && dense.relu_outputs.is_none());
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Epilogue<'a> {
    /// Whether the product is added to the outputs instead of replacing them.
    pub add: bool,
    /// Added to every row; one for each column.
    pub bias: Option<&'a [f32]>,
    /// Applied to every number.
    pub activation: Activation,
    /// The outputs of a ReLU, of the shape of the product, through which it is propagated back: where they are 0, it becomes 0.
    pub relu_outputs: Option<&'a [f32]>,
}

impl Epilogue<'_> {
    /// Returns whether nothing is fused but the addition.
    fn is_plain(&self) -> bool {
        self.bias.is_none() && self.activation == Activation::Linear && self.relu_outputs.is_none()
    }
}

/// Returns how many numbers of scratch [`matmul_into`] needs for a product of `rows` rows and `columns` columns, with sums of
/// `length` terms.
///
/// ```
/// use phalanx_matmul::{Level, Precision, matmul_scratch};
/// assert!(matmul_scratch(Level::detect(), Precision::F32, 128, 784, 10) >= 784 * 10);
/// ```
#[must_use]
pub fn matmul_scratch(level: Level, precision: Precision, rows: usize, length: usize, columns: usize) -> usize {
    let kernel = Kernel::new(level, precision);
    if rows == 0 { 0 } else { blocks::scratch(kernel, length, columns) }
}

/// Computes `a · b`, row-major, with the fused operations of `epilogue`.
///
/// ```
/// use phalanx_matmul::{Activation, Epilogue, Level, Matrix, Precision, matmul_into, matmul_scratch};
///
/// let (a, b, level) = ([1.0, 2.0, 3.0, 4.0], [1.0, 0.0, 0.0, 2.0], Level::detect());
/// let mut scratch = vec![0.0; matmul_scratch(level, Precision::F32, 2, 2, 2)];
/// let mut out = [0.0; 4];
/// let dense = Epilogue { bias: Some(&[-2.0, 1.0]), activation: Activation::Relu, ..Epilogue::default() };
/// let (a, b) = (Matrix::new(&a, 2, 2), Matrix::new(&b, 2, 2));
/// matmul_into(level, Precision::F32, a, b, dense, &mut out, &mut scratch);
/// assert_eq!(out, [0.0, 5.0, 1.0, 9.0]);
/// ```
///
/// # Panics
/// If the shapes do not fit together, or there is too little scratch.
pub fn matmul_into(
    level: Level,
    precision: Precision,
    a: Matrix<'_>,
    b: Matrix<'_>,
    epilogue: Epilogue<'_>,
    out: &mut [f32],
    scratch: &mut [f32],
) {
    assert_eq!(a.columns(), b.rows(), "the left matrix has as many columns as the right one has rows");
    check("the product", out, a.rows(), b.columns());
    check_epilogue(epilogue, a.rows(), b.columns());
    if let Some((rows, vector)) = as_dots(a, b) {
        return dots(level, rows, vector, epilogue, out);
    }
    // SAFETY: the shapes were checked, and the numbers are initialized.
    unsafe { in_tiles(level, precision, (a, b), epilogue, uninit(out), uninit(scratch)) };
}

/// Checks the shapes of what is fused with a product.
fn check_epilogue(epilogue: Epilogue<'_>, rows: usize, columns: usize) {
    epilogue.bias.inspect(|bias| check("a bias for every column", bias, columns, 1));
    epilogue.relu_outputs.inspect(|outputs| check("the outputs of the ReLU", outputs, rows, columns));
    let both = epilogue.activation != Activation::Linear && epilogue.relu_outputs.is_some();
    assert!(!both, "either an activation or the outputs of a ReLU");
}

/// Computes `a · b` as [`matmul_into`] does at the fastest level, into memory of its own.
pub(crate) fn matmul_new(a: Matrix<'_>, b: Matrix<'_>, precision: Precision, epilogue: Epilogue<'_>) -> Vec<f32> {
    let (level, rows, columns) = (Level::detect(), a.rows(), b.columns());
    assert_eq!(a.columns(), b.rows(), "the left matrix has as many columns as the right one has rows");
    let count = rows.checked_mul(columns).expect("the product fits into memory");
    if as_dots(a, b).is_some() {
        let mut out = vec![0.0; count];
        matmul_into(level, precision, a, b, epilogue, &mut out, &mut []);
        return out;
    }
    check_epilogue(epilogue, rows, columns);
    let (mut out, mut scratch) = (Vec::with_capacity(count), Vec::new());
    scratch.reserve_exact(matmul_scratch(level, precision, rows, a.columns(), columns));
    let memory = &mut out.spare_capacity_mut()[..count];
    // SAFETY: the shapes were checked, nothing is added to what is in memory, and all of it is written.
    unsafe {
        in_tiles(level, precision, (a, b), Epilogue { add: false, ..epilogue }, memory, scratch.spare_capacity_mut());
        out.set_len(count);
    }
    out
}

/// Computes a product by tiles.
///
/// # Safety
/// The shapes fit, and `out` is initialized if `epilogue` adds to it.
unsafe fn in_tiles(
    level: Level,
    precision: Precision,
    (a, b): (Matrix<'_>, Matrix<'_>),
    epilogue: Epilogue<'_>,
    out: &mut [MaybeUninit<f32>],
    scratch: &mut [MaybeUninit<f32>],
) {
    if out.is_empty() {
        return;
    }
    // A product of one column is faster as one of one row, which has complete vectors and is read where it stands.
    let kernel = Kernel::new(level, precision);
    let turn = b.columns() == 1 && a.transposed && epilogue.is_plain() && kernel.steps_per_word() == 1;
    let (a, b) = if turn { (b.transposed(), a.transposed()) } else { (a, b) };
    // SAFETY: the caller promises the same.
    unsafe { blocks::matmul(level, kernel, a, b, epilogue, Shared::new(out), scratch) };
}

/// Returns the products that are one dot product for each row of a matrix: the matrix and the vector.
fn as_dots<'a>(a: Matrix<'a>, b: Matrix<'a>) -> Option<(Matrix<'a>, &'a [f32])> {
    if a.columns() == 0 {
        None
    } else if b.columns() == 1 && !a.transposed {
        Some((a, b.numbers))
    } else if a.rows() == 1 && b.transposed {
        Some((b.transposed(), a.numbers))
    } else {
        None
    }
}

/// Writes the dot product of each row with a vector.
fn dots(level: Level, rows: Matrix<'_>, vector: &[f32], epilogue: Epilogue<'_>, out: &mut [f32]) {
    let length = vector.len();
    by_rows(out.len(), grain(length), (In(rows.numbers, length), Out(&mut *out, 1)), &|(rows, out)| {
        dot_rows(level, rows.0, vector, epilogue.add, out.0);
    });
    // There is one number for each row, so what remains is little.
    match epilogue.bias {
        Some(&[bias]) => out.iter_mut().for_each(|out| *out += bias),
        Some(bias) => out.iter_mut().zip(bias).for_each(|(out, bias)| *out += bias),
        None => {}
    }
    epilogue.activation.apply(level, out);
    if let Some(outputs) = epilogue.relu_outputs {
        out.iter_mut().zip(outputs).for_each(|(out, &y)| *out = relu_slope(y, *out));
    }
}

leveled! {
    fn dot_rows(rows: &[f32], vector: &[f32], add: bool, out: &mut [f32]) => dot_rows_body;
}

#[inline(always)]
fn dot_rows_body<const F: bool>(rows: &[f32], vector: &[f32], add: bool, out: &mut [f32]) {
    for (row, out) in rows.chunks_exact(vector.len()).zip(out) {
        *out = lanes::dot::<F>(row, vector) + if add { *out } else { 0.0 };
    }
}
