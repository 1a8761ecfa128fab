//! A set of integers, numbered in order of insertion.

use hashbrown::HashTable;

/// A set of integers, each with its index.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    numbers: Vec<i64>,
    table: HashTable<(i64, usize)>,
}

impl Numbers {
    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    pub(crate) fn list(&self) -> &[i64] {
        &self.numbers
    }

    /// The index of a number.
    #[inline]
    pub(crate) fn find(&self, number: i64) -> Option<usize> {
        self.table.find(hash(number), |&(known, _)| known == number).map(|&(_, index)| index)
    }

    /// Inserts a number; returns its index and whether it is new.
    pub(crate) fn insert(&mut self, number: i64) -> (usize, bool) {
        if let Some(index) = self.find(number) {
            return (index, false);
        }
        let index = self.numbers.len();
        self.numbers.push(number);
        self.table.insert_unique(hash(number), (number, index), |&(number, _)| hash(number));
        (index, true)
    }
}

/// Spreads consecutive ids over all bits.
#[inline]
fn hash(number: i64) -> u64 {
    phalanx_base::mix(number as u64)
}
