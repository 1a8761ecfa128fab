//! Numbers that look random and are the same on every machine for the same seed.

use phalanx_base::STRIDE;
pub(crate) use phalanx_base::SplitMix as Random;

/// Spreads the bits of a pair of numbers.
pub(crate) fn mix(a: u64, b: u64) -> u64 {
    phalanx_base::mix(a.wrapping_mul(STRIDE).wrapping_add(b).wrapping_add(0x632b_e59b_d9b4_e019))
}

/// A seed nobody asked for, different in every process and every call.
pub(crate) fn fresh_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}
