//! A set of byte strings, numbered in order of insertion.
//!
//! Hot path: one fingerprint and one probe per value, and no allocation for known values.

use hashbrown::HashTable;
use phalanx_data::Strings;
use phalanx_formats::fingerprint::fingerprint64;

/// A set of byte strings, each with its index. The hash is the fingerprint that also selects the bucket of an unknown value.
#[derive(Clone, Debug, Default)]
pub struct Words {
    words: Strings,
    table: HashTable<(u64, usize)>,
}

impl Words {
    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    pub(crate) fn list(&self) -> &Strings {
        &self.words
    }

    pub(crate) fn get(&self, index: usize) -> &[u8] {
        self.words.get(index)
    }

    /// The index of a word with the fingerprint `hash`.
    #[inline]
    pub(crate) fn find(&self, hash: u64, word: &[u8]) -> Option<usize> {
        let found = self.table.find(hash, |&(known, index)| known == hash && self.words.get(index) == word);
        found.map(|&(_, index)| index)
    }

    /// Inserts a word; returns its index and whether it is new.
    pub(crate) fn insert(&mut self, word: &[u8]) -> (usize, bool) {
        let hash = fingerprint64(word);
        if let Some(index) = self.find(hash, word) {
            return (index, false);
        }
        let index = self.words.len();
        self.words.push(word);
        self.table.insert_unique(hash, (hash, index), |&(hash, _)| hash);
        (index, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_their_first_index() {
        let mut words = Words::default();
        let places: Vec<_> = ["b", "", "a", "b", ""].iter().map(|word| words.insert(word.as_bytes())).collect();
        assert_eq!(places, [(0, true), (1, true), (2, true), (0, false), (1, false)]);
        assert_eq!((words.len(), words.get(2)), (3, b"a".as_slice()));
        assert_eq!(words.find(fingerprint64(b"c"), b"c"), None);
    }
}
