//! Matrix products into memory of the caller.

use crate::parallel::check;
use crate::{Activation, Level, Matrix, Precision};

/// Operations that are fused into a product: a separate pass would read and write all numbers again. They are applied in the
/// order of the fields.
///
/// ```
/// use phalanx_matmul::{Activation, Epilogue};
///
/// let dense = Epilogue { bias: Some(&[0.5]), activation: Activation::Relu, ..Epilogue::default() };
/// assert!(!dense.add && dense.relu_outputs.is_none());
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Epilogue<'a> {
    /// Whether the product is added to what stands in the outputs.
    pub add: bool,
    /// Added to every row; one for each column.
    pub bias: Option<&'a [f32]>,
    /// Applied to every number.
    pub activation: Activation,
    /// The outputs of a ReLU, of the shape of the product, through which it is propagated back: where they are 0, it becomes 0.
    pub relu_outputs: Option<&'a [f32]>,
}

/// Returns how many numbers of scratch [`matmul_into`] needs for a product of `rows` rows and `columns` columns, with sums of
/// `length` terms.
#[must_use]
pub fn matmul_scratch(level: Level, precision: Precision, rows: usize, length: usize, columns: usize) -> usize {
    let _ = (level, precision, rows, length, columns);
    0
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
    epilogue.bias.inspect(|bias| check("a bias for every column", bias, b.columns(), 1));
    epilogue.relu_outputs.inspect(|outputs| check("the outputs of the ReLU", outputs, a.rows(), b.columns()));
    let _ = (precision, scratch);
    let ((a_step, a_row), (b_step, b_row)) = (a.strides(), b.strides());
    for row in 0..a.rows() {
        for column in 0..b.columns() {
            let at = row * b.columns() + column;
            let terms =
                (0..a.columns()).map(|i| a.numbers[row * a_row + i * a_step] * b.numbers[i * b_row + column * b_step]);
            let mut sum = if epilogue.add { out[at] } else { 0.0 } + terms.sum::<f32>();
            sum += epilogue.bias.map_or(0.0, |bias| bias[column]);
            epilogue.activation.apply(level, std::slice::from_mut(&mut sum));
            out[at] = if epilogue.relu_outputs.is_some_and(|y| y[at] <= 0.0) { 0.0 } else { sum };
        }
    }
}
