//! Products of every shape.

use crate::support::{near, numbers, with_threads};
use phalanx_matmul::{Activation, Epilogue, Finish, Level, Matrix, Precision, matmul, matmul_into, matmul_scratch};

fn at(matrix: &[f32], columns: usize, transposed: bool, rows: usize, row: usize, column: usize) -> f64 {
    f64::from(if transposed { matrix[column * rows + row] } else { matrix[row * columns + column] })
}

/// A product to check: rows, terms and columns, which factors are transposed, and what computes it.
#[derive(Clone, Copy, Debug)]
struct Case {
    shape: [usize; 3],
    transposed: (bool, bool),
    level: Level,
    precision: Precision,
}

impl Case {
    fn compute(self, epilogue: Epilogue<'_>, out: &mut [f32]) {
        let [m, k, n] = self.shape;
        let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
        let left = if self.transposed.0 { Matrix::new(&a, k, m).transposed() } else { Matrix::new(&a, m, k) };
        let right = if self.transposed.1 { Matrix::new(&b, n, k).transposed() } else { Matrix::new(&b, k, n) };
        // NaN in the scratch shows whatever is read before it was written.
        let mut scratch = vec![f32::NAN; matmul_scratch(self.level, self.precision, m, k, n)];
        matmul_into(self.level, self.precision, left, right, epilogue, out, &mut scratch);
    }

    fn check(self) {
        let [m, k, n] = self.shape;
        let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
        let mut out = vec![f32::NAN; m * n];
        self.compute(Epilogue::default(), &mut out);
        for row in 0..m {
            for column in 0..n {
                let term = |i| at(&a, k, self.transposed.0, m, row, i) * at(&b, n, self.transposed.1, k, i, column);
                let (sum, size) = (0..k).map(term).fold((0.0, 1.0), |(sum, size), x| (sum + x, size + x.abs()));
                near(out[row * n + column], sum, 1e-5, size, || format!("{self:?} [{row}, {column}]"));
            }
        }
        self.check_epilogues(&out);
    }

    /// The fused operations give the bits of separate ones.
    fn check_epilogues(self, plain: &[f32]) {
        let columns = self.shape[2];
        let (bias, before) = (numbers(columns, 5), numbers(plain.len(), 6));
        let mut out = before.clone();
        self.compute(Epilogue { add: true, ..Epilogue::default() }, &mut out);
        for (i, (&sum, (&plain, &before))) in out.iter().zip(plain.iter().zip(&before)).enumerate() {
            let exact = f64::from(plain) + f64::from(before);
            near(sum, exact, 1e-5, self.shape[1] as f64 * 64.0, || format!("{self:?} added [{i}]"));
        }
        let biased: Vec<f32> = plain.iter().enumerate().map(|(i, sum)| sum + bias[i % columns]).collect();
        // A product of one column is a dot product if nothing is fused, which sums up in another order.
        let same = |out: &[f32], expected: &[f32], what: &str| {
            for (i, (&got, &expected)) in out.iter().zip(expected).enumerate() {
                let size = self.shape[1] as f64 * 64.0;
                near(got, f64::from(expected), 1e-6, size, || format!("{self:?} {what} [{i}]"));
            }
        };
        for activation in [Activation::Linear, Activation::Relu, Activation::Tanh] {
            let mut expected = biased.clone();
            activation.apply(self.level, &mut expected);
            out.fill(f32::NAN);
            self.compute(Epilogue { bias: Some(&bias), activation, ..Epilogue::default() }, &mut out);
            same(&out, &expected, activation_name(activation));
        }
        let outputs: Vec<f32> = before.iter().map(|x| x.max(0.0)).collect();
        let expected: Vec<f32> = plain.iter().zip(&outputs).map(|(&x, &y)| if y > 0.0 { x } else { 0.0 }).collect();
        out.fill(f32::NAN);
        self.compute(Epilogue { relu_outputs: Some(&outputs), ..Epilogue::default() }, &mut out);
        same(&out, &expected, "ReLU");
    }
}

fn activation_name(activation: Activation) -> &'static str {
    match activation {
        Activation::Linear => "with bias",
        Activation::Relu => "with bias and ReLU",
        _ => "with bias and tanh",
    }
}

const TRANSPOSED: [(bool, bool); 4] = [(false, false), (true, false), (false, true), (true, true)];

fn levels() -> impl Iterator<Item = (Level, Precision)> {
    Level::all().flat_map(|level| [(level, Precision::F32), (level, Precision::Bf16)])
}

#[test]
fn every_small_shape() {
    for (level, precision) in levels() {
        for m in [1, 2, 4, 5, 6, 7, 13, 14, 15, 29] {
            for k in [1, 2, 3, 15, 16, 17, 33] {
                for n in [1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 65] {
                    Case { shape: [m, k, n], transposed: TRANSPOSED[(m + k + n) % 4], level, precision }.check();
                }
            }
        }
    }
}

/// Shapes beyond the sizes at which a product is split, and at which its right factor is packed.
#[test]
fn shapes_that_are_split() {
    for (level, precision) in levels() {
        for transposed in TRANSPOSED {
            for shape in [[253, 40, 33], [15, 513, 17], [15, 1601, 17], [3, 5, 1057], [31, 70, 300], [600, 9, 1]] {
                Case { shape, transposed, level, precision }.check();
            }
        }
    }
}

#[test]
fn threads_change_no_bit() {
    for (level, precision) in levels() {
        for (transposed, shape) in TRANSPOSED.into_iter().flat_map(|t| [(t, [300, 200, 150]), (t, [40, 600, 300])]) {
            let with = |threads: usize| {
                let mut out = vec![0.0; shape[0] * shape[2]];
                with_threads(threads, || {
                    Case { shape, transposed, level, precision }.compute(Epilogue::default(), &mut out);
                });
                out
            };
            assert!(with(1) == with(3), "{level:?}");
        }
    }
}

#[test]
fn empty_matrices_and_nan() {
    for precision in [Precision::F32, Precision::Bf16] {
        assert_eq!(matmul(Matrix::new(&[], 2, 0), Matrix::new(&[], 0, 3), precision, None), [0.0; 6]);
        assert!(matmul(Matrix::new(&[], 0, 2), Matrix::new(&[1.0; 6], 2, 3), precision, None).is_empty());
        let finish = Finish { bias: &[1.0, -1.0, 2.0], relu: true };
        let of_nothing = matmul(Matrix::new(&[], 2, 0), Matrix::new(&[], 0, 3), precision, Some(finish));
        assert_eq!(of_nothing, [1.0, 0.0, 2.0, 1.0, 0.0, 2.0]);
        let (a, b) = (Matrix::new(&[f32::NAN, 1.0], 2, 1), Matrix::new(&[f32::INFINITY, 2.0], 1, 2));
        let odd = matmul(a, b, precision, Some(Finish { bias: &[0.0; 2], relu: true }));
        assert!(odd[0].is_nan() && odd[1].is_nan() && odd[2] == f32::INFINITY && odd[3] == 2.0);
    }
}

#[test]
#[should_panic(expected = "as many columns")]
fn shapes_that_do_not_fit_are_refused() {
    let _ = matmul(Matrix::new(&[1.0; 6], 2, 3), Matrix::new(&[1.0; 6], 2, 3), Precision::F32, None);
}

#[test]
#[should_panic(expected = "a bias for every column")]
fn a_bias_that_is_too_short_is_refused() {
    let finish = Finish { bias: &[1.0; 2], relu: false };
    let _ = matmul(Matrix::new(&[1.0; 6], 2, 3), Matrix::new(&[1.0; 9], 3, 3), Precision::F32, Some(finish));
}

#[test]
#[should_panic(expected = "the scratch has 0 lines")]
fn too_little_scratch_is_refused() {
    let (a, b, mut out) = ([1.0; 9], [1.0; 9], [0.0; 9]);
    let b = Matrix::new(&b, 3, 3).transposed();
    let level = Level::detect();
    matmul_into(level, Precision::F32, Matrix::new(&a, 3, 3), b, Epilogue::default(), &mut out, &mut []);
}

#[test]
#[should_panic(expected = "a matrix of 4294967296 rows")]
fn a_matrix_with_more_numbers_than_can_be_counted_is_refused() {
    // The number of numbers is 2 to the 64th, which would wrap to 0.
    let _ = Matrix::new(&[], 1 << 32, 1 << 32);
}

#[test]
fn scratch_that_cannot_be_counted_is_more_than_there_is() {
    for level in Level::all() {
        assert_eq!(matmul_scratch(level, Precision::F32, 1, usize::MAX, usize::MAX), usize::MAX);
    }
}
