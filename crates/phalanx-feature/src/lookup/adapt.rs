//! Vocabularies from data.

use super::{Keys, Lookup};
use crate::adapt::each_batch;
use phalanx_base::Result;
use phalanx_data::{Column, Dataset};
use std::sync::Arc;

impl<K: Keys> Lookup<K> {
    /// Builds the vocabulary in one pass over a dataset: the most frequent tokens first, and the greater of equally frequent
    /// ones. The special tokens are left out.
    ///
    /// # Errors
    /// If reading fails, or there is no such column of this type.
    pub fn adapt(self, data: &Dataset, column: &str) -> Result<Self> {
        let mut counts = Counts::default();
        each_batch(data, |batch| counts.add(batch.column(column)?))?;
        self.learn(counts)
    }

    /// Like [`Lookup::adapt`], over columns in memory.
    ///
    /// # Errors
    /// If a column is of another type.
    pub fn adapt_columns<'a>(self, columns: impl IntoIterator<Item = &'a Column>) -> Result<Self> {
        let mut counts = Counts::default();
        columns.into_iter().try_for_each(|column| counts.add(column))?;
        self.learn(counts)
    }

    fn learn(mut self, Counts { keys, counts }: Counts<K>) -> Result<Self> {
        self.check()?;
        let mut order: Vec<usize> = (0..keys.size()).collect();
        order.sort_unstable_by(|&a, &b| counts[b].cmp(&counts[a]).then_with(|| keys.compare(b, a)));
        let mut special = K::default();
        for token in self.mask_token.iter().chain(&self.oov_token) {
            special.add(token);
        }
        let capacity = self.max_tokens.map_or(usize::MAX, |max| max.saturating_sub(self.token_start()));
        let mut learnt = K::default();
        for index in order.into_iter().filter(|&index| !special.has_from(&keys, index)).take(capacity) {
            learnt.add_from(&keys, index);
        }
        self.keys = Arc::new(learnt);
        Ok(self)
    }
}

/// The tokens seen so far and their counts.
struct Counts<K> {
    keys: K,
    counts: Vec<u64>,
}

impl<K: Keys> Default for Counts<K> {
    fn default() -> Self {
        Self { keys: K::default(), counts: Vec::new() }
    }
}

impl<K: Keys> Counts<K> {
    fn add(&mut self, column: &Column) -> Result<()> {
        self.keys.count(column, &mut self.counts)
    }
}
