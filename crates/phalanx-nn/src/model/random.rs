//! Numbers that look random and repeat with their seed.

use phalanx_base::SplitMix;

/// One stream of numbers. Streams of one seed do not depend on each other, nor on who draws first.
pub(crate) struct Random(SplitMix);

/// A seed of its own for number `stream` under `seed`.
pub(crate) fn mixed(seed: u64, stream: u64) -> u64 {
    SplitMix::new(seed ^ stream.wrapping_add(1).wrapping_mul(0xd6e8_feb8_6659_fd93)).word()
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix::new(seed))
    }

    /// From 0 up to and without 1.
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.0.word() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Around 0 with deviation 1 (Box and Muller).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// The same, drawn again until it lies within two deviations.
    pub(crate) fn truncated_normal(&mut self) -> f64 {
        loop {
            let drawn = self.normal();
            if drawn.abs() < 2.0 {
                return drawn;
            }
        }
    }
}
