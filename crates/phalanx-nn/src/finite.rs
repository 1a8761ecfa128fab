//! Whether numbers are numbers.

/// Whether every little-endian f32 in `bytes` is finite. One pass at memory speed: the exponent bits are compared as
/// integers, which vectorizes where a float comparison would not.
///
/// ```
/// let bytes = |x: f32| [1.0, x, 2.0_f32].map(f32::to_le_bytes).concat();
/// assert!(phalanx_nn::all_finite(&bytes(-3.0)));
/// assert!(!phalanx_nn::all_finite(&bytes(f32::NAN)));
/// assert!(!phalanx_nn::all_finite(&bytes(f32::INFINITY)));
/// ```
#[must_use]
pub fn all_finite(bytes: &[u8]) -> bool {
    const EXPONENT: u32 = 0x7f80_0000;
    let wrong = |four: &[u8; 4]| u32::from(u32::from_le_bytes(*four) & EXPONENT == EXPONENT);
    bytes.as_chunks::<4>().0.chunks(4096).all(|run| run.iter().fold(0, |found, four| found | wrong(four)) == 0)
}
