//! Products of every shape, compared with a plain loop in double precision.

use phalanx_base::SplitMix;
use phalanx_matmul::{Finish, Matrix, Precision, is_supported, matmul};

/// Random numbers that bfloat16 represents exactly, so that both precisions give the same sums.
fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut random = SplitMix::new(seed);
    (0..count).map(|_| (random.word() >> 56) as f32 / 16.0 - 8.0).collect()
}

fn at(matrix: &[f32], columns: usize, transposed: bool, rows: usize, row: usize, column: usize) -> f64 {
    f64::from(if transposed { matrix[column * rows + row] } else { matrix[row * columns + column] })
}

fn check([m, k, n]: [usize; 3], transposed: (bool, bool), precision: Precision) {
    let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
    let left = if transposed.0 { Matrix::new(&a, k, m).transposed() } else { Matrix::new(&a, m, k) };
    let right = if transposed.1 { Matrix::new(&b, n, k).transposed() } else { Matrix::new(&b, k, n) };
    let ours = matmul(left, right, precision, None);
    finished(&ours, n, |finish| matmul(left, right, precision, Some(finish)));
    for row in 0..m {
        for column in 0..n {
            let terms = (0..k).map(|i| at(&a, k, transposed.0, m, row, i) * at(&b, n, transposed.1, k, i, column));
            let (sum, size) = terms.fold((0.0, 1.0), |(sum, size), term| (sum + term, size + term.abs()));
            let got = f64::from(ours[row * n + column]);
            assert!(
                (got - sum).abs() <= 1e-5 * size,
                "{m}x{k}x{n} {transposed:?} {precision:?} [{row}, {column}]: {got} {sum}"
            );
        }
    }
}

/// The fused operations give the bits of separate ones.
fn finished(plain: &[f32], columns: usize, with: impl Fn(Finish<'_>) -> Vec<f32>) {
    let bias = numbers(columns, 5);
    let biased: Vec<f32> = plain.iter().enumerate().map(|(i, sum)| sum + bias[i % columns]).collect();
    assert_eq!(with(Finish { bias: &bias, relu: false }), biased);
    let rectified: Vec<f32> = biased.iter().map(|sum| sum.max(0.0)).collect();
    assert_eq!(with(Finish { bias: &bias, relu: true }), rectified);
}

const TRANSPOSED: [(bool, bool); 4] = [(false, false), (true, false), (false, true), (true, true)];

fn precisions() -> impl Iterator<Item = Precision> {
    [Precision::F32, Precision::Bf16].into_iter().filter(|&precision| is_supported(precision))
}

#[test]
fn every_small_shape() {
    for precision in precisions() {
        for m in [1, 2, 13, 14, 15, 16, 17, 29] {
            for k in [1, 2, 3, 15, 16, 17, 32, 33] {
                for n in [1, 2, 15, 16, 17, 31, 32, 33, 65] {
                    check([m, k, n], TRANSPOSED[(m + k + n) % 4], precision);
                }
            }
        }
    }
}

/// Shapes beyond the sizes at which a product is split: 252 rows, 512 steps (1024 in pairs).
#[test]
fn shapes_that_are_split() {
    for precision in precisions() {
        for transposed in TRANSPOSED {
            check([253, 40, 33], transposed, precision);
            check([15, 513, 17], transposed, precision);
            check([15, 1601, 17], transposed, precision);
            check([3, 5, 1057], transposed, precision);
        }
    }
}

#[test]
fn threads_change_no_bit() {
    let (a, b) = (numbers(300 * 200, 3), numbers(200 * 150, 4));
    let with = |threads: usize, precision| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| matmul(Matrix::new(&a, 300, 200), Matrix::new(&b, 200, 150), precision, None))
    };
    for precision in precisions() {
        assert_eq!(with(1, precision), with(3, precision));
    }
}

#[test]
fn empty_matrices_and_nan() {
    for precision in precisions() {
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
#[should_panic(expected = "a matrix of 4294967296 rows")]
fn a_matrix_with_more_numbers_than_can_be_counted_is_refused() {
    // The number of numbers is 2 to the 64th, which would wrap to 0.
    let _ = Matrix::new(&[], 1 << 32, 1 << 32);
}
