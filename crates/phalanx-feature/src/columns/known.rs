//! The values that a column knows: its vocabulary, or the range of its ids.

use super::FeatureColumn;
use super::kind::{Categorical, ColumnKind, CrossInput, Split, leaves};
use super::tokens::Tokens;
use crate::transform::{each_part, parse_integer};
use phalanx_base::Result;
use phalanx_data::{Column, StringsView, ValuesView};
use phalanx_formats::fingerprint::fingerprint64;
use std::sync::Arc;

/// The values of an input that a column knows: those of a vocabulary, or the ids below a number.
#[derive(Clone, Debug)]
pub struct KnownValues {
    key: Arc<str>,
    /// The delimiter of texts that hold several values.
    split: Split,
    known: Known,
}

#[derive(Clone, Debug)]
enum Known {
    Tokens(Arc<Tokens>),
    Below(usize),
}

/// How many values of an input are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnknownCount {
    /// The number of values, without missing ones.
    pub values: u64,
    /// How many of them are unknown.
    pub unknown: u64,
    /// The first unknown value.
    pub example: Option<String>,
}

impl UnknownCount {
    /// Returns the share of values that are unknown, 0 without values.
    #[must_use]
    pub fn share(&self) -> f64 {
        if self.values == 0 { 0.0 } else { self.unknown as f64 / self.values as f64 }
    }

    fn add(&mut self, is_known: bool, shown: impl FnOnce() -> String) {
        self.values += 1;
        if !is_known {
            self.unknown += 1;
            self.example.get_or_insert_with(shown);
        }
    }
}

impl KnownValues {
    /// Returns the name of the input.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Counts the values of an input, without missing ones: empty texts and -1. An input of another type than the
    /// vocabulary is not counted; the column refuses it.
    ///
    /// ```
    /// use phalanx_data::Column;
    /// use phalanx_feature::{UnknownCount, categorical_column_with_vocabulary_list, embedding_column};
    /// let genre = embedding_column(categorical_column_with_vocabulary_list("genre", ["Action", "Comedy"]), 4);
    /// let mut count = UnknownCount::default();
    /// genre.known_values()?[0].count(&Column::text(["Action", "", "Action|Comedy"]), &mut count);
    /// assert_eq!((count.values, count.unknown, count.example.as_deref()), (2, 1, Some("Action|Comedy")));
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    pub fn count(&self, input: &Column, count: &mut UnknownCount) {
        match (&self.known, input.values()) {
            (Known::Tokens(tokens), ValuesView::Bytes(texts)) => {
                let Tokens::Words(words) = &**tokens else { return self.count_split(texts, count) };
                let mut add = |text: &[u8]| {
                    let is_known = words.find(fingerprint64(text), text).is_some();
                    count.add(is_known, || String::from_utf8_lossy(text).into_owned());
                };
                for text in texts.iter().filter(|text| !text.is_empty()) {
                    match &self.split {
                        None => add(text),
                        Some(delimiter) => each_part(text, delimiter.as_bytes(), &mut add),
                    }
                }
            }
            (Known::Below(_), ValuesView::Bytes(texts)) => self.count_split(texts, count),
            (known, ValuesView::I64(integers)) => integers.iter().for_each(|&integer| known.integer(integer, count)),
            (known, ValuesView::U8(bytes)) => bytes.iter().for_each(|&byte| known.integer(byte.into(), count)),
            _ => {}
        }
    }

    /// Counts integers of texts that hold several. The column refuses other texts.
    fn count_split(&self, texts: StringsView<'_>, count: &mut UnknownCount) {
        let Some(delimiter) = &self.split else { return };
        for text in texts.iter() {
            each_part(text, delimiter.as_bytes(), |part| {
                if let Some(integer) = parse_integer(part) {
                    self.known.integer(integer, count);
                }
            });
        }
    }
}

impl Known {
    fn integer(&self, integer: i64, count: &mut UnknownCount) {
        let is_known = match self {
            Self::Below(buckets) => usize::try_from(integer).is_ok_and(|id| id < *buckets),
            Self::Tokens(tokens) => match &**tokens {
                Tokens::Numbers(numbers) => numbers.find(integer).is_some(),
                Tokens::Words(_) => return,
            },
        };
        if integer != -1 {
            count.add(is_known, || integer.to_string());
        }
    }
}

impl FeatureColumn {
    /// Returns the values that the column knows of each of its inputs; none for inputs that are numbers, hashed or crossed
    /// as they are.
    ///
    /// # Errors
    /// If the settings are not valid, or a vocabulary file cannot be read.
    pub fn known_values(&self) -> Result<Vec<KnownValues>> {
        let mut all = Vec::new();
        match self.checked()? {
            ColumnKind::Numeric(_) | ColumnKind::SequenceNumeric(_) => {}
            ColumnKind::Categorical(column) | ColumnKind::Indicator(column) => column.add_known(&mut all)?,
            ColumnKind::Embedding(embedding) => embedding.column.add_known(&mut all)?,
        }
        Ok(all)
    }
}

impl Categorical {
    fn add_known(&self, all: &mut Vec<KnownValues>) -> Result<()> {
        let (key, split, known) = match self.base() {
            Self::Identity { key, split, buckets, .. } => (key, split, Known::Below(*buckets)),
            Self::Vocabulary { key, split, vocabulary, .. } => (key, split, Known::Tokens(vocabulary.tokens()?)),
            Self::Crossed { parts, .. } => {
                for part in leaves(parts) {
                    if let CrossInput::Column(column) = part {
                        column.add_known(all)?;
                    }
                }
                return Ok(());
            }
            Self::Hash { .. }
            | Self::Bucketized { .. }
            | Self::Time { .. }
            | Self::Weighted { .. }
            | Self::Sequence(_) => return Ok(()),
        };
        all.push(KnownValues { key: Arc::clone(key), split: split.clone(), known });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::*;
    use phalanx_data::Column;

    fn count(column: &FeatureColumn, input: &Column) -> Vec<(String, u64, u64)> {
        let counted = |known: &KnownValues| {
            let mut count = UnknownCount::default();
            known.count(input, &mut count);
            (known.key().to_owned(), count.values, count.unknown)
        };
        column.known_values().unwrap().iter().map(counted).collect()
    }

    #[test]
    fn vocabularies_and_ranges_are_found_inside_of_other_columns() {
        let city = || categorical_column_with_vocabulary_list("city", ["oslo", "rome"]);
        let texts = Column::text(["oslo", "", "bern", "rome"]);
        for column in [city(), indicator_column(city()), embedding_column(city(), 2)] {
            assert_eq!(count(&column, &texts), [("city".to_owned(), 3, 1)], "{column:?}");
        }
        let bags = Column::text(["oslo|bern", "rome"]);
        assert_eq!(count(&city().split("|"), &bags), [("city".to_owned(), 3, 1)]);
        let cross = crossed_column([CrossKey::from(city()), CrossKey::from("job")], 100);
        assert_eq!(count(&cross, &texts), [("city".to_owned(), 3, 1)]);
        let user = categorical_column_with_identity("user", 3);
        assert_eq!(count(&user, &Column::i64(vec![0, 2, 3, -1, -7])), [("user".to_owned(), 4, 2)]);
        let bags = Column::text(["0|2|3", "", "-7|"]);
        assert_eq!(count(&user.split("|"), &bags), [("user".to_owned(), 4, 2)]);
        let year = categorical_column_with_vocabulary_list("year", [2001, 2002]);
        assert_eq!(count(&year, &Column::i64(vec![2001, 7])), [("year".to_owned(), 2, 1)]);
        assert_eq!(count(&year, &texts), [("year".to_owned(), 0, 0)], "the column refuses texts itself");
        for column in [numeric_column("x"), bucketized_column("x", [1]), categorical_column_with_hash_bucket("x", 9)] {
            assert!(column.known_values().unwrap().is_empty());
        }
    }
}
