//! Random numbers that are the same for the same seed, on every machine.

use phalanx_base::SplitMix;

/// A generator with what a fuzzer draws.
///
/// ```
/// use phalanx_fuzz::Rng;
/// assert_eq!(Rng::new(7).next(), Rng::new(7).next());
/// assert!(Rng::new(7).below(10) < 10);
/// ```
#[derive(Clone, Debug)]
pub struct Rng(SplitMix);

impl Rng {
    /// Numbers that begin at this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(SplitMix::new(seed))
    }

    /// The next number.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        self.0.word()
    }

    /// A number less than `end`; 0 where there is none.
    pub fn below(&mut self, end: usize) -> usize {
        self.0.below(end)
    }

    /// True once in `many` times.
    pub fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    /// One of them.
    ///
    /// # Panics
    /// When there is none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// A number as a parser fears it: at the edge of something, or any.
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
