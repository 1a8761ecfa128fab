//! Arithmetic that gives the same bits on every machine: only `+ - * /`, no library function.
//!
//! The row of a click log is a function of its number; a library's `exp` differs from one system to the next.

use phalanx_base::{STRIDE, mix};

/// The `index`-th random word of a key.
#[inline]
pub(super) fn word(key: u64, index: u64) -> u64 {
    mix(key.wrapping_add((index + 1).wrapping_mul(STRIDE)))
}

/// A number in [0, 1) with 53 bits.
#[inline]
pub(super) fn uniform(word: u64) -> f64 {
    (word >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
}

/// A number with mean 0 and variance 1, nearly normal: the sum of four uniform ones.
#[inline]
pub(super) fn normal(word: u64) -> f64 {
    let sum = (word & 0xffff) + (word >> 16 & 0xffff) + (word >> 32 & 0xffff) + (word >> 48);
    (sum as f64 * (1.0 / 65_535.0) - 2.0) * 1.732_050_807_568_877_2
}

/// 2 to the power of `x`, to nine digits, for |x| up to 1000; beyond that the result of that bound.
#[inline]
pub(super) fn exp2(x: f64) -> f64 {
    let x = x.clamp(-1000.0, 1000.0);
    // Adding and taking away 1.5 · 2^52 rounds to the nearest whole number.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    let whole = (x + ROUND) - ROUND;
    let y = (x - whole) * std::f64::consts::LN_2;
    let series = 1.0
        + y * (1.0
            + y * (1.0 / 2.0
                + y * (1.0 / 6.0 + y * (1.0 / 24.0 + y * (1.0 / 120.0 + y * (1.0 / 720.0 + y * (1.0 / 5040.0)))))));
    series * f64::from_bits(((whole as i64 + 1023) as u64) << 52)
}

/// The binary logarithm of a positive normal number, to nine digits.
#[inline]
pub(super) fn log2(x: f64) -> f64 {
    let bits = x.to_bits();
    // The mantissa between the square roots of a half and of two.
    const ROOT_HALF: u64 = 0x3fe6_a09e_667f_3bcd;
    let shift = bits.wrapping_sub(ROOT_HALF) as i64 >> 52;
    let mantissa = f64::from_bits(bits.wrapping_sub((shift as u64) << 52));
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let q = s * s;
    let series = s * (1.0 + q * (1.0 / 3.0 + q * (1.0 / 5.0 + q * (1.0 / 7.0 + q * (1.0 / 9.0)))));
    shift as f64 + series * (2.0 * std::f64::consts::LOG2_E)
}

/// The natural logarithm.
pub(super) fn ln(x: f64) -> f64 {
    log2(x) * std::f64::consts::LN_2
}

/// The probability that a logit means.
#[inline]
pub(super) fn sigmoid(logit: f64) -> f64 {
    1.0 / (1.0 + exp2(-logit * std::f64::consts::LOG2_E))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_the_library() {
        for i in -4000..4000 {
            let x = f64::from(i) * 0.0173;
            assert!((exp2(x) / x.exp2() - 1.0).abs() < 1e-8, "2^{x}: {} {}", exp2(x), x.exp2());
            let y = x.exp2();
            assert!((log2(y) - x).abs() < 1e-8, "log2({y}): {}", log2(y));
            assert!((sigmoid(x) - 1.0 / (1.0 + (-x).exp())).abs() < 1e-8);
        }
    }

    #[test]
    fn random_numbers_have_their_moments() {
        let words = || (0..100_000).map(|i| word(17, i));
        let mean = words().map(uniform).sum::<f64>() / 1e5;
        assert!((mean - 0.5).abs() < 0.005, "{mean}");
        let (sum, squares) = words().map(normal).fold((0.0, 0.0), |(s, q), z| (s + z, q + z * z));
        assert!((sum / 1e5).abs() < 0.01 && (squares / 1e5 - 1.0).abs() < 0.02, "{sum} {squares}");
    }
}
