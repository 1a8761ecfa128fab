//! Pseudo-random numbers that are the same on every machine for the same seed.

/// The increment of [`SplitMix`]'s state for each number: 2⁶⁴ over the golden ratio, made odd.
pub const STRIDE: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes the bits of a word: the finalizer of SplitMix64, a bijection in which every input bit affects every output bit.
/// Used for hashes, and for numbers that depend on a key alone.
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

/// The SplitMix64 generator: eight bytes of state, any seed, good statistics. Not for secrets.
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
    /// Creates the generator with this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    #[inline]
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STRIDE);
        mix(self.0)
    }

    /// Returns a number below `bound`, or 0 if `bound` is 0. The bias is below one in 2⁶⁴ ÷ bound.
    #[inline]
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.word()) * bound as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with the output of the authors' reference implementation.
    #[test]
    fn the_numbers_are_those_of_the_reference_implementation() {
        let mut random = SplitMix::new(1_234_567);
        let numbers = [(); 3].map(|()| random.word());
        assert_eq!(numbers, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }
}
