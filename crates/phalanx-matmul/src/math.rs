//! Functions of one number in 32-bit floats, without branches, so that loops over them are vectorized.
//!
//! Relative errors are below 5e-7 wherever the result is a normal number; `tests/it/activation.rs` measures them.

/// 1.5 · 2²³: adding it rounds a small number to an integer, which the low bits of the sum hold.
const MAGIC: f32 = 12_582_912.0;
/// ln 2 in two parts; the first one has so few bits that its products with small integers are exact.
const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = -2.121_944_4e-4;

/// `a * b + c`, rounded once if `F` is set.
#[inline(always)]
pub(crate) fn fma<const F: bool>(a: f32, b: f32, c: f32) -> f32 {
    if F { a.mul_add(b, c) } else { a * b + c }
}

/// The polynomial with these coefficients, the highest power first.
#[inline(always)]
fn polynomial<const F: bool, const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut sum = coefficients[0];
    for &next in &coefficients[1..] {
        sum = fma::<F>(sum, x, next);
    }
    sum
}

/// The number within bounds; NaN stays NaN.
#[inline(always)]
pub(crate) fn within(x: f32, low: f32, high: f32) -> f32 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// 2 to the power of an integer of at least -126 and at most 127.
#[inline(always)]
fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits((exponent.wrapping_add(127) as u32) << 23)
}

/// Splits x into an integer multiple of ln 2 and a small rest, and returns the integer and `exp(rest) - 1`.
#[inline(always)]
fn reduced<const F: bool>(x: f32) -> (i32, f32) {
    let shifted = fma::<F>(x, std::f32::consts::LOG2_E, MAGIC);
    let times = shifted - MAGIC;
    let rest = fma::<F>(times, -LN_2_LOW, fma::<F>(times, -LN_2_HIGH, x));
    let series = [1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5];
    let power = fma::<F>(polynomial::<F, 6>(rest, series), rest * rest, rest);
    ((shifted.to_bits() as i32).wrapping_sub(MAGIC.to_bits() as i32), power)
}

#[inline(always)]
pub(crate) fn exp<const F: bool>(x: f32) -> f32 {
    let (times, power) = reduced::<F>(within(x, -104.0, 89.0));
    // In two steps: neither the largest nor the smallest results have a power of two of their own.
    let half = times >> 1;
    (1.0 + power) * power_of_two(half) * power_of_two(times.wrapping_sub(half))
}

/// `exp(x) - 1` for numbers that are not positive.
#[inline(always)]
pub(crate) fn exp_m1_below<const F: bool>(x: f32) -> f32 {
    let (times, power) = reduced::<F>(within(x, -30.0, 0.0));
    let scale = power_of_two(times);
    fma::<F>(power, scale, scale - 1.0)
}

/// The natural logarithm of a normal positive number.
#[inline(always)]
pub(crate) fn ln<const F: bool>(x: f32) -> f32 {
    // The mantissa between the square roots of 1/2 and 2, and the exponent.
    let bits = (x.to_bits() as i32).wrapping_sub(0x3f35_04f3);
    let exponent = bits >> 23;
    let mantissa = f32::from_bits((bits & 0x007f_ffff).wrapping_add(0x3f35_04f3) as u32);
    // An integer becomes a float by the bits of a large one.
    let exponent = f32::from_bits((MAGIC.to_bits() as i32).wrapping_add(exponent) as u32) - MAGIC;
    let ratio = (mantissa - 1.0) / (mantissa + 1.0);
    let square = ratio * ratio;
    let series = polynomial::<F, 4>(square, [2.0 / 9.0, 2.0 / 7.0, 2.0 / 5.0, 2.0 / 3.0]);
    let of_mantissa = fma::<F>(series * square, ratio, 2.0 * ratio);
    let sum = fma::<F>(exponent, LN_2_HIGH, fma::<F>(exponent, LN_2_LOW, of_mantissa));
    let sum = if x > f32::MAX { x } else { sum };
    // NaN stays NaN; nothing here is negative or zero.
    if x > 0.0 { sum } else { f32::NAN }
}

/// `ln(1 + x)` for x between 0 and 1.
#[inline(always)]
pub(crate) fn ln_1p<const F: bool>(x: f32) -> f32 {
    let one_more = 1.0 + x;
    // What was lost by rounding the sum.
    let lost = x - (one_more - 1.0);
    ln::<F>(one_more) + lost / one_more
}

#[inline(always)]
pub(crate) fn sigmoid<const F: bool>(x: f32) -> f32 {
    1.0 / (1.0 + exp::<F>(-x))
}

#[inline(always)]
pub(crate) fn softplus<const F: bool>(x: f32) -> f32 {
    // Not `max`, which drops NaN.
    let positive = if x < 0.0 { 0.0 } else { x };
    positive + ln_1p::<F>(exp::<F>(-x.abs()))
}

#[inline(always)]
pub(crate) fn tanh<const F: bool>(x: f32) -> f32 {
    let below = exp_m1_below::<F>(-2.0 * x.abs());
    (-below / (2.0 + below)).copysign(x)
}

/// The error function. The rational function was fitted to `erf(x) / x` by iteratively reweighted least squares.
#[inline(always)]
pub(crate) fn erf<const F: bool>(x: f32) -> f32 {
    let x = within(x, -3.92, 3.92);
    let square = x * x;
    let over = [
        2.046_035_2e-6,
        2.848_354_6e-4,
        3.772_306_2e-3,
        5.276_854e-2,
        1.905_884_5e-1,
        std::f32::consts::FRAC_2_SQRT_PI,
    ];
    let under = [3.804_743e-5, 1.163_793_8e-3, 1.498_271_2e-2, 1.141_804_8e-1, 5.022_373e-1, 1.0];
    let inside = x * polynomial::<F, 6>(square, over) / polynomial::<F, 6>(square, under);
    // From 3.92 on, the nearest number is 1.
    if x.abs() < 3.92 || x.is_nan() { inside } else { 1.0_f32.copysign(x) }
}

/// The cumulative normal distribution.
#[inline(always)]
pub(crate) fn normal<const F: bool>(x: f32) -> f32 {
    0.5 + 0.5 * erf::<F>(x * std::f32::consts::FRAC_1_SQRT_2)
}
