//! Random numbers that are the same for the same seed, on every machine.

/// A splitmix64 generator.
///
/// ```
/// use phalanx_fuzz::Rng;
/// assert_eq!(Rng::new(7).next(), Rng::new(7).next());
/// assert!(Rng::new(7).below(10) < 10);
/// ```
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Numbers that begin at this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number less than `end`; 0 where there is none.
    pub fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
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
