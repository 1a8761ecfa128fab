//! `Hashing`: values to bins by hash.

use super::setting;
use crate::columns::VocabularyToken;
use crate::encode::{OutputMode, encode, encode_graph, encoded_shape};
use crate::transform::fingerprint_of;
use crate::{GraphTensor, PreprocessingLayer, text::decimal};
use phalanx_base::{Code, Error, Result};
use phalanx_data::{Column, DType, ValuesView};
use phalanx_formats::fingerprint::fingerprint64;
use phalanx_formats::saved_model::GraphBuilder;
use siphasher::sip::SipHasher24;

/// Keras' `Hashing`: texts and integers to bins, by FarmHash, or by SipHash-2-4 with a salt.
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

    /// Returns a layer with `num_bins` bins.
    #[must_use]
    pub fn new(num_bins: usize) -> Self {
        Self { num_bins, mask: None, salt: None, output_mode: OutputMode::Int }
    }

    /// Sets a value that always goes to bin 0, which is then reserved for it.
    #[must_use]
    pub fn mask_value(self, value: impl Into<VocabularyToken>) -> Self {
        Self { mask: Some(value.into()), ..self }
    }

    /// Sets the hash key, so that collisions differ from those of other layers.
    #[must_use]
    pub fn salt(self, salt: impl Into<Salt>) -> Self {
        Self { salt: Some(salt.into().0), ..self }
    }

    setters! {
        /// Sets the output: bins, ones or counts.
        output_mode: OutputMode => output_mode;
    }

    /// The number of bins for hashes, and the first of them.
    fn bins(&self) -> (u64, i64) {
        match (&self.mask, self.num_bins) {
            (Some(_), 2..) => (self.num_bins as u64 - 1, 1),
            _ => (self.num_bins as u64, 0),
        }
    }

    fn check(&self) -> Result<()> {
        if self.num_bins == 0 || self.num_bins > i64::MAX as usize {
            return Err(setting(Self::LAYER, format!("it has {} bins, at least 1 is needed", self.num_bins)));
        }
        Ok(())
    }

    fn hash_text(&self, text: &[u8]) -> u64 {
        self.salt.map_or_else(|| fingerprint64(text), |[k0, k1]| SipHasher24::new_with_keys(k0, k1).hash(text))
    }

    fn hash_number(&self, number: i64) -> u64 {
        if self.salt.is_none() { fingerprint_of(number) } else { decimal(number, |text| self.hash_text(text)) }
    }

    /// Masked values get the first bin.
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
        let integer = |mask: &VocabularyToken| mask.integer().ok_or_else(|| setting(Self::LAYER, "its mask is a text"));
        let mask = self.mask.as_ref().map(integer).transpose()?;
        Ok(self.bins_of(numbers, |&number| mask == Some(number), |&number| self.hash_number(number)))
    }

    fn text_bins<'a, 'm>(&'m self, texts: impl Iterator<Item = &'a [u8]>) -> Result<Vec<i64>> {
        let text = |mask: &'m VocabularyToken| mask.text().ok_or_else(|| setting(Self::LAYER, "its mask is a number"));
        let mask = self.mask.as_ref().map(text).transpose()?;
        Ok(self.bins_of(texts, |text| mask == Some(*text), |text| self.hash_text(text)))
    }
}

impl PreprocessingLayer for Hashing {
    fn call(&self, column: &Column) -> Result<Column> {
        self.check()?;
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

    fn kind(&self) -> &'static str {
        "Hashing"
    }

    fn input_type(&self) -> DType {
        match &self.mask {
            Some(mask) if mask.integer().is_some() => DType::I64,
            _ => DType::Bytes,
        }
    }

    fn output_shape(&self, input: &[usize]) -> Result<Vec<usize>> {
        self.check()?;
        Ok(encoded_shape(input, self.output_mode, self.num_bins))
    }

    fn graph(&self, graph: &mut GraphBuilder, input: GraphTensor, dims: &[usize]) -> Result<GraphTensor> {
        self.check()?;
        let (bins, first) = self.bins();
        let (texts, masked) = match (input, &self.mask) {
            (GraphTensor::I64(numbers), mask) => {
                let mask = mask.as_ref().and_then(VocabularyToken::integer).map(|mask| graph.scalar(mask));
                (graph.as_string(numbers), mask.map(|mask| graph.equal(numbers, mask)))
            }
            (input, mask) => {
                let texts = input.texts()?;
                let mask = mask.as_ref().and_then(VocabularyToken::text).map(|mask| graph.texts(&[], &[mask]));
                (texts, mask.map(|mask| graph.equal(texts, mask)))
            }
        };
        let hashed = match self.salt {
            None => graph.hash_bucket(texts, bins as i64),
            Some(key) => graph.keyed_hash_bucket(texts, bins as i64, key),
        };
        let ids = match masked {
            Some(masked) if first == 1 => {
                let (one, zero) = (graph.scalar(1_i64), graph.scalar(0_i64));
                let hashed = graph.add(hashed, one);
                graph.select(masked, zero, hashed)
            }
            _ => hashed,
        };
        encode_graph(graph, ids, dims, self.output_mode, self.num_bins)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn salted_hashes_match_the_test_vectors_of_siphash() {
        // Key 00 01 … 0f; the text of length n is 00 01 … n-1.
        let layer = Hashing::new(1).salt([0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908]);
        let text: Vec<u8> = (0..15).collect();
        let hashes = [0, 8, 15].map(|length| layer.hash_text(&text[..length]));
        assert_eq!(hashes, [0x726f_db47_dd0e_0e31, 0x93f5_f579_9a93_2462, 0xa129_ca61_49be_45e5]);
    }
}
