//! A hash that is the same on every machine.

/// Returns the 64-bit FNV-1a hash of `bytes`, for checksums and digests. Not for secrets.
///
/// ```
/// assert_eq!(phalanx_base::fnv1a(*b"foobar"), 0x8594_4171_f739_67e8);
/// ```
#[must_use]
pub fn fnv1a(bytes: impl IntoIterator<Item = u8>) -> u64 {
    let add = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, add)
}
