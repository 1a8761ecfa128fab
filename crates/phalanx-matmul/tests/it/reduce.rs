//! Sums and norms.

use crate::support::{near, numbers, with_threads};
use phalanx_matmul::{Level, add_scaled, clip_by_norm, column_sums, relu_gradient_sums, scale, squared_norm, sum};

const LENGTHS: [usize; 12] = [0, 1, 2, 15, 16, 17, 63, 64, 65, 5000, 70_001, 200_000];

#[test]
fn sums_of_all_numbers() {
    for level in Level::all() {
        for length in LENGTHS {
            let x = numbers(length, 1);
            let exact: f64 = x.iter().map(|&x| f64::from(x)).sum();
            let squares: f64 = x.iter().map(|&x| f64::from(x).powi(2)).sum();
            assert!((sum(level, &x) - exact).abs() <= 1e-6 * length as f64, "{length} {level:?}");
            assert!((squared_norm(level, &x) - squares).abs() <= 1e-6 * squares, "{length} {level:?}");
        }
    }
}

#[test]
fn sums_of_columns() {
    for level in Level::all() {
        for rows in [0, 1, 3, 127, 128, 129, 1000, 3000] {
            for columns in [1, 2, 3, 4, 5, 15, 16, 17, 20, 63, 64, 65, 130, 200] {
                let (x, y) = (numbers(rows * columns, 1), numbers(rows * columns, 2));
                let mut sums = vec![f32::NAN; columns];
                column_sums(level, &x, &mut sums);
                let exact = |x: &[f32], column| (0..rows).map(|row| f64::from(x[row * columns + column])).sum::<f64>();
                for (column, &got) in sums.iter().enumerate() {
                    near(got, exact(&x, column), 1e-6, rows as f64, || format!("{rows}x{columns} {level:?}"));
                }
                let masked: Vec<f32> = x.iter().zip(&y).map(|(&x, &y)| if y > 0.0 { x } else { 0.0 }).collect();
                let mut dy = x;
                relu_gradient_sums(level, &y, &mut dy, &mut sums);
                assert_eq!(dy, masked);
                for (column, &got) in sums.iter().enumerate() {
                    near(got, exact(&dy, column), 1e-6, rows as f64, || format!("{rows}x{columns} {level:?}"));
                }
            }
        }
    }
}

#[test]
fn scaling_and_adding() {
    for level in Level::all() {
        for length in LENGTHS {
            let (x, before) = (numbers(length, 1), numbers(length, 2));
            let mut y = before.clone();
            add_scaled(level, 0.5, &x, &mut y);
            assert!(y.iter().zip(x.iter().zip(&before)).all(|(&y, (&x, &before))| y == before + 0.5 * x));
            scale(level, 2.0, &mut y);
            assert!(y.iter().zip(x.iter().zip(&before)).all(|(&y, (&x, &before))| y == 2.0 * before + x));
        }
    }
}

#[test]
fn norms_are_clipped_together() {
    for level in Level::all() {
        let (mut a, mut b) = (vec![3.0; 100], vec![4.0; 100]);
        assert_eq!(clip_by_norm(level, 50.0, &mut [&mut a, &mut b]), 50.0);
        assert_eq!((a[7], b[7]), (3.0, 4.0));
        assert_eq!(clip_by_norm(level, 5.0, &mut [&mut a, &mut b]), 50.0);
        assert!((a[7] - 0.3).abs() < 1e-6 && (b[7] - 0.4).abs() < 1e-6);
        assert_eq!(clip_by_norm(level, 0.0, &mut [&mut [0.0][..]]), 0.0);
        for odd in [f32::NAN, f32::INFINITY] {
            a[3] = odd;
            assert!(!clip_by_norm(level, 5.0, &mut [&mut a, &mut b]).is_finite());
            assert!(a[0].is_nan() && b[0].is_nan());
            (a, b) = (vec![3.0; 100], vec![4.0; 100]);
        }
    }
}

#[test]
fn threads_change_no_bit() {
    let x = numbers(300_000, 1);
    for level in Level::all() {
        let with = |threads: usize| {
            with_threads(threads, || {
                let mut columns: Vec<Vec<f32>> = [1, 10, 32, 300].map(|columns| vec![0.0; columns]).to_vec();
                columns.iter_mut().for_each(|sums| column_sums(level, &x, sums));
                (sum(level, &x).to_bits(), squared_norm(level, &x).to_bits(), columns)
            })
        };
        assert!(with(1) == with(3), "{level:?}");
    }
}

#[test]
#[should_panic(expected = "complete rows of 7 numbers")]
fn rows_that_are_cut_off_are_refused() {
    column_sums(Level::detect(), &[0.0; 20], &mut [0.0; 7]);
}
