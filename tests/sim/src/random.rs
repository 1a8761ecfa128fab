//! Random numbers that depend on the seed alone.

use phalanx_base::{STRIDE, SplitMix};

/// A sequence of random numbers for a seed.
#[derive(Clone, Debug)]
pub(crate) struct Random(SplitMix);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix::new(seed.wrapping_mul(STRIDE) ^ 0x51e7_0f5e_ed00_0001))
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.0.word() % (high - low + 1)
    }

    /// Returns true in `permille` of a thousand cases.
    pub(crate) fn chance(&mut self, permille: u64) -> bool {
        self.0.word() % 1000 < permille
    }
}
