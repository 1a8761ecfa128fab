//! Numbers that look random and are the same on every machine for the same seed.

/// How far the state of [`SplitMix`] goes with each number: 2⁶⁴ over the golden ratio, and odd.
pub const STRIDE: u64 = 0x9e37_79b9_7f4a_7c15;

/// A bijection in which every bit that comes in reaches every bit that goes out (the finish of SplitMix64): for hashes, and
/// for numbers that depend on a key alone.
///
/// ```
/// use phalanx_base::mix;
/// assert_eq!((mix(0), mix(1)), (0, 0x5692_161d_100b_05e5));
/// ```
#[inline]
#[must_use]
pub const fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// SplitMix64: eight bytes of state, passes the usual tests, and can start anywhere. Not for secrets.
///
/// ```
/// use phalanx_base::SplitMix;
/// let mut random = SplitMix::new(7);
/// let first = random.word();
/// assert_eq!(first, SplitMix::new(7).word());
/// assert!(random.below(10) < 10);
/// ```
#[derive(Clone, Debug)]
pub struct SplitMix(u64);

impl SplitMix {
    /// The numbers of this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    #[inline]
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STRIDE);
        mix(self.0)
    }

    /// A number below `bound`; 0 where there is none. The bias is below one in 2⁶⁴ ÷ bound.
    #[inline]
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.word()) * bound as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers that the authors' own program prints for this seed.
    #[test]
    fn the_numbers_are_those_of_the_paper() {
        let mut random = SplitMix::new(1_234_567);
        let numbers = [(); 3].map(|()| random.word());
        assert_eq!(numbers, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }
}
