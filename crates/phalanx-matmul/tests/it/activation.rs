//! Activation functions and their slopes, over the whole range of numbers.

use crate::support::with_threads;
use phalanx_matmul::{Activation, Level};

/// The error function: its series, or near 1 its continued fraction.
fn erf(x: f64) -> f64 {
    if x.abs() > 3.0 {
        let fraction = (1..60).rev().fold(x.abs(), |under, k| x.abs() + f64::from(k) / 2.0 / under);
        return x.signum() * (1.0 - (-x * x).exp() / (fraction * std::f64::consts::PI.sqrt()));
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..100 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * std::f64::consts::FRAC_2_SQRT_PI
}

/// The function and its slope in double precision.
fn exact(function: Activation, x: f64) -> (f64, f64) {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let softplus = |x: f64| x.max(0.0) + (-x.abs()).exp().ln_1p();
    let normal = |x: f64| 0.5 * (1.0 + erf(x / std::f64::consts::SQRT_2));
    let (alpha, scale) = (1.673_263_242_354_377_2, 1.050_700_987_355_480_5);
    match function {
        Activation::Linear => (x, 1.0),
        Activation::Relu => (x.max(0.0), f64::from(u8::from(x > 0.0))),
        Activation::Elu => (if x > 0.0 { x } else { x.exp_m1() }, x.min(0.0).exp()),
        Activation::Selu if x > 0.0 => (scale * x, scale),
        Activation::Selu => (scale * alpha * x.exp_m1(), scale * alpha * x.exp()),
        Activation::Gelu => {
            let density = (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
            (x * normal(x), normal(x) + x * density)
        }
        Activation::Sigmoid => (sigmoid(x), sigmoid(x) * sigmoid(-x)),
        Activation::HardSigmoid => {
            ((0.2 * x + 0.5).clamp(0.0, 1.0), if (0.2 * x + 0.5) > 0.0 && (0.2 * x + 0.5) < 1.0 { 0.2 } else { 0.0 })
        }
        Activation::Tanh => (x.tanh(), 1.0 / x.cosh().powi(2)),
        Activation::Softplus => (softplus(x), sigmoid(x)),
        Activation::Softsign => (x / (1.0 + x.abs()), (1.0 + x.abs()).powi(-2)),
        Activation::Swish => (x * sigmoid(x), sigmoid(x) * (1.0 + x * sigmoid(-x))),
        Activation::Mish => {
            let (tanh, slope) = (softplus(x).tanh(), softplus(x).cosh().powi(-2));
            (x * tanh, tanh + x * slope * sigmoid(x))
        }
        Activation::Exponential => (x.exp(), x.exp()),
    }
}

/// Numbers of every size, of both signs.
fn inputs() -> Vec<f32> {
    let sizes = (0..4000).map(|i| 10.0_f32.powf(-6.0 + i as f32 * 8.0 / 4000.0));
    let fine = (0..40_000).map(|i| (i as f32 - 20_000.0) / 1000.0);
    sizes.flat_map(|x| [x, -x]).chain(fine).chain([0.0, 0.0]).filter(|x| x.abs() < 87.0).collect()
}

/// The bounds of the relative errors of function and slope; and the size below which an error counts as an absolute one.
fn bounds(function: Activation) -> (f64, f64, f64) {
    match function {
        // As TensorFlow's: the sum in a factor near 0 has the error of a number near 1.
        Activation::Gelu => (1e-6, 1e-6, 1.0),
        // Slopes from outputs near their limits have the error of a number near 1.
        Activation::Tanh | Activation::Softsign | Activation::Sigmoid | Activation::Elu => (1e-6, 1e-6, 1.0),
        Activation::Selu => (1e-6, 1e-6, 1.8),
        // Slopes that cross 0 between terms of this size.
        Activation::Mish | Activation::Swish => (1e-6, 1e-6, 0.1),
        _ => (1e-6, 1e-6, 1e-30),
    }
}

#[test]
fn functions_and_slopes_are_accurate() {
    let x = inputs();
    for level in Level::all() {
        for function in Activation::ALL {
            let mut y = x.clone();
            function.apply(level, &mut y);
            let kept = if function.keeps_input() { &x } else { &y };
            let mut slopes = vec![f32::NAN; x.len()];
            function.gradient(level, kept, &vec![1.0; x.len()], &mut slopes);
            let (bound, slope_bound, size) = bounds(function);
            for ((&x, &y), &slope) in x.iter().zip(&y).zip(&slopes) {
                let (exact, exact_slope) = exact(function, f64::from(x));
                // Functions that end with a small difference of larger numbers have an absolute bound, as TensorFlow's have.
                let least = match function {
                    Activation::Gelu => f64::from(x.abs()),
                    Activation::HardSigmoid => 1.0,
                    _ => 0.0,
                };
                let apart = (f64::from(y) - exact).abs() / exact.abs().max(least).max(1e-37);
                assert!(apart <= bound, "{function:?} of {x} is {exact}, not {y} ({level:?})");
                let rounded = function == Activation::HardSigmoid && (x.abs() - 2.5).abs() < 1e-6;
                let apart = (f64::from(slope) - exact_slope).abs() / exact_slope.abs().max(size);
                assert!(
                    apart <= slope_bound || rounded,
                    "the slope of {function:?} at {x} is {exact_slope}, not {slope}"
                );
            }
        }
    }
}

#[test]
fn extremes_have_limits_and_nan_stays() {
    for level in Level::all() {
        let of = |function: Activation, x: f32| {
            // All lanes of a vector and the rest after it.
            let mut all = [x; 19];
            function.apply(level, &mut all);
            assert!(all.iter().all(|y| y.to_bits() == all[0].to_bits()), "{function:?} {level:?}");
            all[0]
        };
        for function in Activation::ALL {
            assert!(of(function, f32::NAN).is_nan(), "{function:?} {level:?}");
        }
        assert_eq!(
            [-1e30, -104.0, 89.0, 1e30].map(|x| of(Activation::Exponential, x)),
            [0.0, 0.0, f32::INFINITY, f32::INFINITY]
        );
        assert_eq!([-200.0, 200.0].map(|x| of(Activation::Sigmoid, x)), [0.0, 1.0]);
        assert_eq!([-200.0, 200.0].map(|x| of(Activation::Tanh, x)), [-1.0, 1.0]);
        assert_eq!([-200.0, 200.0].map(|x| of(Activation::Softplus, x)), [0.0, 200.0]);
        assert_eq!([-200.0, 200.0].map(|x| of(Activation::Mish, x)), [0.0, 200.0]);
        assert_eq!([-200.0, 200.0].map(|x| of(Activation::Gelu, x)), [0.0, 200.0]);
        assert_eq!([-200.0, 200.0].map(|x| of(Activation::Elu, x)), [-1.0, 200.0]);
        assert_eq!(of(Activation::Relu, -0.0).to_bits(), 0);
    }
}

#[test]
fn threads_change_no_bit() {
    let x: Vec<f32> = (0..100_003).map(|i| (i % 1999) as f32 / 100.0 - 10.0).collect();
    for level in Level::all() {
        let with = |threads: usize| {
            with_threads(threads, || {
                let (mut y, mut dx) = (x.clone(), vec![0.0; x.len()]);
                Activation::Mish.apply(level, &mut y);
                Activation::Mish.gradient(level, &x, &y, &mut dx);
                (y, dx)
            })
        };
        assert!(with(1) == with(5), "{level:?}");
    }
}
