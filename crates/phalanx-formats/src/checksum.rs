//! crc32c as TensorFlow stores it: masked, so that a checksum of data that contains checksums stays useful.

/// The masked crc32c of `bytes`.
///
/// ```
/// assert_eq!(phalanx_formats::checksum::masked(b""), 0xa282_ead8);
/// ```
#[must_use]
pub fn masked(bytes: &[u8]) -> u32 {
    mask(crc32c::crc32c(bytes))
}

/// Masks a crc32c.
#[must_use]
pub fn mask(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}
