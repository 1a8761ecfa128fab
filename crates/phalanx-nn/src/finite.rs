//! The check for NaN and infinity.

use crate::threads::PARALLEL_THRESHOLD;
use rayon::prelude::*;

/// Returns whether every number is finite. One pass at memory speed: the exponent bits are compared as integers, which
/// vectorizes where a float comparison would not.
///
/// ```
/// assert!(phalanx_nn::all_finite(&[1.0, -3.0, 2.0]));
/// assert!(!phalanx_nn::all_finite(&[1.0, f32::NAN, 2.0]));
/// assert!(!phalanx_nn::all_finite(&[1.0, f32::INFINITY, 2.0]));
/// ```
#[must_use]
pub fn all_finite(numbers: &[f32]) -> bool {
    const EXPONENT: u32 = 0x7f80_0000;
    let wrong = |number: &f32| u32::from(number.to_bits() & EXPONENT == EXPONENT);
    let all =
        |part: &[f32]| part.chunks(4096).all(|run| run.iter().fold(0, |found, number| found | wrong(number)) == 0);
    if numbers.len() <= PARALLEL_THRESHOLD { all(numbers) } else { numbers.par_chunks(PARALLEL_THRESHOLD).all(all) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_many_is_enough() {
        let mut numbers = vec![1.0; 3 * PARALLEL_THRESHOLD + 5];
        assert!(all_finite(&numbers));
        for at in [0, PARALLEL_THRESHOLD, 3 * PARALLEL_THRESHOLD + 4] {
            numbers[at] = f32::NEG_INFINITY;
            assert!(!all_finite(&numbers), "{at}");
            numbers[at] = 1.0;
        }
    }
}
