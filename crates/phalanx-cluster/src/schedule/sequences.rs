//! The sequence numbers that an incarnation has reported.

use std::collections::BTreeSet;

/// A set of numbers from 1. It is nearly always contiguous, so it stores the end of that range and the few numbers beyond.
#[derive(Clone, Debug, Default)]
pub(super) struct Sequences {
    through: u64,
    beyond: BTreeSet<u64>,
}

impl Sequences {
    /// Creates the set of all numbers up to `number`.
    pub(super) fn through(number: u64) -> Self {
        Self { through: number, beyond: BTreeSet::new() }
    }

    /// Returns the highest number in the set; 0 if it is empty.
    pub(super) fn highest(&self) -> u64 {
        self.beyond.last().copied().unwrap_or(self.through)
    }

    /// Adds a number.
    pub(super) fn insert(&mut self, number: u64) {
        if number > self.through {
            self.beyond.insert(number);
        }
        while self.beyond.remove(&(self.through + 1)) {
            self.through += 1;
        }
    }

    /// Returns the numbers that are not in the set, ascending without end.
    pub(super) fn missing(&self) -> impl Iterator<Item = u64> {
        (self.through + 1..).filter(|number| !self.beyond.contains(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_equals_a_plain_set(numbers in proptest::collection::vec(1_u64..40, 0..60)) {
            let mut sequences = Sequences::default();
            for &number in &numbers {
                sequences.insert(number);
            }
            let set: BTreeSet<u64> = numbers.into_iter().collect();
            prop_assert_eq!(sequences.highest(), set.last().copied().unwrap_or(0));
            let missing: Vec<u64> = sequences.missing().take_while(|&number| number < 50).collect();
            prop_assert_eq!(missing, (1..50).filter(|number| !set.contains(number)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn numbers_in_order_take_no_memory() {
        let mut sequences = Sequences::default();
        (1..1000).for_each(|number| sequences.insert(number));
        assert!(sequences.beyond.is_empty());
    }
}
