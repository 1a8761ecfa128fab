//! Interactions of fields.

use crate::support::{near, numbers, with_threads};
use phalanx_matmul::{Fields, Level, cross, cross_gradient};

#[test]
fn factorization_machines_and_dot_products() {
    for level in Level::all() {
        for rows in [0, 1, 3, 20] {
            for (fields, dim) in [(1, 4), (2, 1), (3, 5), (5, 16), (4, 17), (27, 10), (9, 64), (3, 33), (0, 3), (3, 0)]
            {
                check(level, rows, Fields { fields, dim });
            }
        }
    }
}

fn check(level: Level, rows: usize, shape: Fields) {
    let Fields { fields, dim } = shape;
    let (width, pairs) = (fields * dim, shape.pairs());
    let (x, d_sum, d_dots) = (numbers(rows * width, 1), numbers(rows, 2), numbers(rows * pairs, 3));
    let (mut sums, mut dots) = (vec![f32::NAN; rows], vec![f32::NAN; rows * pairs]);
    let [mut dx, mut dots_dx] = [(); 2].map(|()| vec![f32::NAN; x.len()]);
    shape.factorization(level, &x, &mut sums);
    shape.factorization_gradient(level, &x, &d_sum, &mut dx);
    if pairs > 0 {
        shape.dots(level, &x, &mut dots);
        shape.dots_gradient(level, &x, &d_dots, &mut dots_dx);
    }
    let what = || format!("{rows} rows of {shape:?} {level:?}");
    for row in 0..rows {
        let at = |field: usize, i: usize| row * width + field * dim + i;
        let (mut sum, mut slopes) = (0.0, vec![(0.0, 0.0); width]);
        let of_pairs = (1..fields).flat_map(|a| (0..a).map(move |b| (a, b)));
        for (pair, (a, b)) in of_pairs.enumerate() {
            let dot: f64 = (0..dim).map(|i| f64::from(x[at(a, i)]) * f64::from(x[at(b, i)])).sum();
            near(dots[row * pairs + pair], dot, 1e-6, 64.0 * dim as f64, what);
            sum += dot;
            for (own, other) in [(a, b), (b, a)] {
                for i in 0..dim {
                    let other = f64::from(x[at(other, i)]);
                    slopes[own * dim + i].0 += other * f64::from(d_sum[row]);
                    slopes[own * dim + i].1 += other * f64::from(d_dots[row * pairs + pair]);
                }
            }
        }
        near(sums[row], sum, 1e-6, 64.0 * (dim * fields * fields) as f64, what);
        for (i, (of_sum, of_dots)) in slopes.into_iter().enumerate() {
            near(dx[row * width + i], of_sum, 1e-6, 64.0 * fields as f64, what);
            if pairs > 0 {
                near(dots_dx[row * width + i], of_dots, 1e-6, 64.0 * fields as f64, what);
            }
        }
    }
}

#[test]
fn cross_layers() {
    for level in Level::all() {
        for length in [0, 1, 17, 1000] {
            let [x0, u, x, dy, before] = [1, 2, 3, 4, 5].map(|seed| numbers(length, seed));
            let (mut y, mut du, mut dx0) = (vec![f32::NAN; length], vec![f32::NAN; length], before.clone());
            cross(level, &x0, &u, &x, &mut y);
            cross_gradient(level, (&x0, &u), &dy, &mut du, &mut dx0);
            for i in 0..length {
                // Exact: the numbers are short.
                assert_eq!([y[i], du[i], dx0[i]], [x0[i] * u[i] + x[i], dy[i] * x0[i], before[i] + dy[i] * u[i]]);
            }
        }
    }
}

#[test]
fn threads_change_no_bit() {
    let shape = Fields { fields: 27, dim: 16 };
    let (x, d_dots) = (numbers(500 * 27 * 16, 1), numbers(500 * shape.pairs(), 2));
    for level in Level::all() {
        let with = |threads: usize| {
            with_threads(threads, || {
                let (mut dots, mut dx) = (d_dots.clone(), vec![0.0; x.len()]);
                shape.dots(level, &x, &mut dots);
                shape.dots_gradient(level, &x, &d_dots, &mut dx);
                (dots, dx)
            })
        };
        assert!(with(1) == with(3), "{level:?}");
    }
}

#[test]
#[should_panic(expected = "the fields: 2 rows of 6 numbers")]
fn slices_of_different_rows_are_refused() {
    Fields { fields: 2, dim: 3 }.factorization(Level::detect(), &[0.0; 6], &mut [0.0; 2]);
}
