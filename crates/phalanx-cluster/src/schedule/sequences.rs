//! Which sequence numbers of a life were reported.

use std::collections::BTreeSet;

/// A set of numbers from 1 that is nearly always whole from its start, so it is kept as that and the few beyond.
#[derive(Clone, Debug, Default)]
pub(super) struct Sequences {
    through: u64,
    beyond: BTreeSet<u64>,
}

impl Sequences {
    /// All numbers up to this one.
    pub(super) fn through(number: u64) -> Self {
        Self { through: number, beyond: BTreeSet::new() }
    }

    /// The highest number in the set; 0 if there is none.
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

    /// The numbers that are not in the set, ascending and without end.
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
        fn it_is_the_set_it_stands_for(numbers in proptest::collection::vec(1_u64..40, 0..60)) {
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
    fn a_run_in_order_takes_no_room() {
        let mut sequences = Sequences::default();
        (1..1000).for_each(|number| sequences.insert(number));
        assert!(sequences.beyond.is_empty());
    }
}
