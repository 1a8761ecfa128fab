//! Seeded random numbers.

use phalanx_base::SplitMix;

/// A stream of random numbers.
pub(crate) struct Random(SplitMix);

/// Derives the seed of stream `stream` from `seed`.
pub(crate) fn mixed(seed: u64, stream: u64) -> u64 {
    SplitMix::new(seed ^ stream.wrapping_add(1).wrapping_mul(0xd6e8_feb8_6659_fd93)).word()
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix::new(seed))
    }

    /// Uniform in [0, 1).
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.0.word() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Standard normal (Box-Muller).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Standard normal, redrawn until it is within two deviations.
    pub(crate) fn truncated_normal(&mut self) -> f64 {
        loop {
            let drawn = self.normal();
            if drawn.abs() < 2.0 {
                return drawn;
            }
        }
    }
}
