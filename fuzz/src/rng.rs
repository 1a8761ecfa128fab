//! Random numbers that depend only on their seed.

use phalanx_base::SplitMix;

/// A random number generator for fuzzers.
///
/// ```
/// use phalanx_fuzz::Rng;
/// assert_eq!(Rng::new(7).next(), Rng::new(7).next());
/// assert!(Rng::new(7).below(10) < 10);
/// ```
#[derive(Clone, Debug)]
pub struct Rng(SplitMix);

impl Rng {
    /// Creates a generator from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(SplitMix::new(seed))
    }

    /// Returns the next number.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        self.0.word()
    }

    /// Returns a number less than `end`, or 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        self.0.below(end)
    }

    /// Returns true once in `many` times.
    pub fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    /// Returns one of the items.
    ///
    /// # Panics
    /// If there are none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// Returns a number that parsers may mishandle: often near a power of two or a limit.
    pub fn edge(&mut self) -> u64 {
        match self.below(8) {
            0 => self.below(4) as u64,
            1 => (1_u64 << self.below(64)).wrapping_sub(self.below(3) as u64),
            2 => (1_u64 << self.below(64)).wrapping_add(self.below(3) as u64),
            3 => (self.below(300) as u64).wrapping_neg(),
            4 => u64::MAX >> self.below(64),
            5 => self.next(),
            _ => self.below(300) as u64,
        }
    }
}
