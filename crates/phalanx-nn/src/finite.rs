//! Whether numbers are numbers.

/// Whether every number is finite. One pass at memory speed: the exponent bits are compared as
/// integers, which vectorizes where a float comparison would not.
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
    numbers.chunks(4096).all(|run| run.iter().fold(0, |found, number| found | wrong(number)) == 0)
}
