//! Writes an Example.

use crate::wire::{put_bytes, put_varint};
use std::collections::BTreeMap;

/// The features of one Example. The same features give the same bytes: keys are sorted, numbers are packed.
///
/// ```
/// use phalanx_formats::example::ExampleWriter;
/// let mut example = ExampleWriter::new();
/// example.i64s("label", &[1]).f32s("x", &[0.5, -0.5]).bytes("city", &["Troy"]);
/// let record = example.encode();
/// # assert!(!record.is_empty());
/// ```
#[derive(Clone, Debug, Default)]
pub struct ExampleWriter {
    /// Serialized `Feature` messages by key.
    features: BTreeMap<String, Vec<u8>>,
}

impl ExampleWriter {
    /// An Example without features.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a feature of floats; replaces one of the same name.
    pub fn f32s(&mut self, name: impl Into<String>, values: &[f32]) -> &mut Self {
        self.set(name.into(), feature_of_f32s(values))
    }

    /// Sets a feature of integers; replaces one of the same name.
    pub fn i64s(&mut self, name: impl Into<String>, values: &[i64]) -> &mut Self {
        self.set(name.into(), feature_of_i64s(values))
    }

    /// Sets a feature of byte strings; replaces one of the same name.
    pub fn bytes<B: AsRef<[u8]>>(&mut self, name: impl Into<String>, values: &[B]) -> &mut Self {
        self.set(name.into(), feature_of_bytes(values))
    }

    /// The record.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut record = Vec::new();
        put_bytes(1, &self.encode_features(), &mut record);
        record
    }

    /// Removes all features, to begin the next Example.
    pub fn clear(&mut self) {
        self.features.clear();
    }

    fn set(&mut self, name: String, feature: Vec<u8>) -> &mut Self {
        self.features.insert(name, feature);
        self
    }

    /// The `Features` message.
    pub(super) fn encode_features(&self) -> Vec<u8> {
        encode_map(&self.features)
    }
}

/// A message whose field 1 is a map of names to messages.
pub(super) fn encode_map(entries: &BTreeMap<String, Vec<u8>>) -> Vec<u8> {
    let (mut map, mut entry) = (Vec::new(), Vec::new());
    for (name, value) in entries {
        entry.clear();
        put_bytes(1, name.as_bytes(), &mut entry);
        put_bytes(2, value, &mut entry);
        put_bytes(1, &entry, &mut map);
    }
    map
}

pub(super) fn feature_of_f32s(values: &[f32]) -> Vec<u8> {
    let packed: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    packed_feature(2, &packed)
}

pub(super) fn feature_of_i64s(values: &[i64]) -> Vec<u8> {
    let mut packed = Vec::new();
    values.iter().for_each(|&value| put_varint(value as u64, &mut packed));
    packed_feature(3, &packed)
}

pub(super) fn feature_of_bytes<B: AsRef<[u8]>>(values: &[B]) -> Vec<u8> {
    let (mut list, mut feature) = (Vec::new(), Vec::new());
    values.iter().for_each(|value| put_bytes(1, value.as_ref(), &mut list));
    put_bytes(1, &list, &mut feature);
    feature
}

/// A list without values is an empty message, not one with an empty field.
fn packed_feature(kind: u32, packed: &[u8]) -> Vec<u8> {
    let (mut list, mut feature) = (Vec::new(), Vec::new());
    if !packed.is_empty() {
        put_bytes(1, packed, &mut list);
    }
    put_bytes(kind, &list, &mut feature);
    feature
}
