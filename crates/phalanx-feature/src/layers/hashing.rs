//! `Hashing`: values sorted into bins by their hash.

use super::setting;
use super::siphash::siphash;
use crate::columns::VocabularyToken;
use crate::encode::{OutputMode, encode};
use crate::transform::fingerprint_of;
use crate::{PreprocessingLayer, text::decimal};
use phalanx_base::{Code, Error, Result};
use phalanx_data::{Column, ValuesView};
use phalanx_formats::fingerprint::fingerprint64;

/// Keras' `Hashing`: texts and integers to bins, by FarmHash, or by SipHash where there is a salt.
///
/// ```
/// use phalanx_data::Column;
/// use phalanx_feature::{Hashing, PreprocessingLayer};
/// let bins = Hashing::new(3).call(&Column::text(["A", "B", "C", "D", "E"]))?;
/// assert_eq!(bins.as_i64()?, [1, 0, 1, 1, 2]);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Hashing {
    num_bins: usize,
    mask: Option<VocabularyToken>,
    salt: Option<[u64; 2]>,
    output_mode: OutputMode,
}

/// The key of a salted hash: one number, or two.
#[derive(Clone, Copy, Debug)]
pub struct Salt([u64; 2]);

impl From<u64> for Salt {
    fn from(salt: u64) -> Self {
        Self([salt, salt])
    }
}

impl From<[u64; 2]> for Salt {
    fn from(salt: [u64; 2]) -> Self {
        Self(salt)
    }
}

impl Hashing {
    const LAYER: &'static str = "Hashing layer";

    /// A layer with so many bins.
    #[must_use]
    pub fn new(num_bins: usize) -> Self {
        Self { num_bins, mask: None, salt: None, output_mode: OutputMode::Int }
    }

    /// A value that always goes to bin 0, which then holds nothing else.
    #[must_use]
    pub fn mask_value(self, value: impl Into<VocabularyToken>) -> Self {
        Self { mask: Some(value.into()), ..self }
    }

    /// Hashes with a key, so that collisions differ from those of other layers.
    #[must_use]
    pub fn salt(self, salt: impl Into<Salt>) -> Self {
        Self { salt: Some(salt.into().0), ..self }
    }

    /// Bins, ones or counts.
    #[must_use]
    pub fn output_mode(self, mode: OutputMode) -> Self {
        Self { output_mode: mode, ..self }
    }

    /// The bins that are free for hashes, and the first of them.
    fn bins(&self) -> (u64, i64) {
        match (&self.mask, self.num_bins) {
            (Some(_), 2..) => (self.num_bins as u64 - 1, 1),
            _ => (self.num_bins as u64, 0),
        }
    }

    fn hash_text(&self, text: &[u8]) -> u64 {
        self.salt.map_or_else(|| fingerprint64(text), |key| siphash(key, text))
    }

    fn hash_number(&self, number: i64) -> u64 {
        self.salt.map_or_else(|| fingerprint_of(number), |key| decimal(number, |text| siphash(key, text)))
    }

    /// What is masked has the first bin to itself.
    fn bins_of<T>(
        &self,
        items: impl Iterator<Item = T>,
        is_masked: impl Fn(&T) -> bool,
        hash: impl Fn(&T) -> u64,
    ) -> Vec<i64> {
        let (bins, first) = self.bins();
        let bin = |item: T| match first == 1 && is_masked(&item) {
            true => 0,
            false => first + (hash(&item) % bins) as i64,
        };
        items.map(bin).collect()
    }

    fn number_bins(&self, numbers: impl Iterator<Item = i64>) -> Result<Vec<i64>> {
        let mask = match &self.mask {
            None => None,
            Some(mask) => Some(mask.integer().ok_or_else(|| setting(Self::LAYER, "its mask is a text"))?),
        };
        Ok(self.bins_of(numbers, |&number| mask == Some(number), |&number| self.hash_number(number)))
    }

    fn text_bins<'a>(&self, texts: impl Iterator<Item = &'a [u8]>) -> Result<Vec<i64>> {
        let mask = match &self.mask {
            None => None,
            Some(mask) => Some(mask.text().ok_or_else(|| setting(Self::LAYER, "its mask is a number"))?),
        };
        Ok(self.bins_of(texts, |text| mask == Some(*text), |text| self.hash_text(text)))
    }
}

impl PreprocessingLayer for Hashing {
    fn call(&self, column: &Column) -> Result<Column> {
        if self.num_bins == 0 || self.num_bins > i64::MAX as usize {
            return Err(setting(Self::LAYER, format!("it has {} bins, at least 1 is needed", self.num_bins)));
        }
        let ids = match column.values() {
            ValuesView::Bytes(texts) => self.text_bins(texts.iter())?,
            ValuesView::I64(numbers) => self.number_bins(numbers.iter().copied())?,
            ValuesView::U8(numbers) => self.number_bins(numbers.iter().map(|&number| number.into()))?,
            ValuesView::F32(_) => {
                return Err(Error::new(Code::DataColumn, "a Hashing layer was given floats")
                    .help("hash texts or integers, or put numbers into bins with Discretization"));
            }
        };
        encode(ids, column, self.output_mode, self.num_bins)
    }
}
