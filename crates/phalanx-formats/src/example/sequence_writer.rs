//! Writes a SequenceExample.

use super::ExampleWriter;
use super::writer::{encode_map, feature_of_bytes, feature_of_f32s, feature_of_i64s};
use crate::wire::put_bytes;
use std::collections::BTreeMap;

/// The context and the feature lists of one SequenceExample; keys are sorted.
///
/// ```
/// use phalanx_formats::example::SequenceWriter;
/// let mut example = SequenceWriter::new();
/// example.context().bytes("user", &["ada"]);
/// example.f32s_list("seconds", &[vec![0.5], vec![2.0]]);
/// # assert!(!example.encode().is_empty());
/// ```
#[derive(Clone, Debug, Default)]
pub struct SequenceWriter {
    context: ExampleWriter,
    /// Serialized `FeatureList` messages by key.
    lists: BTreeMap<String, Vec<u8>>,
}

impl SequenceWriter {
    /// A SequenceExample without features.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The features that are there once.
    pub fn context(&mut self) -> &mut ExampleWriter {
        &mut self.context
    }

    /// Sets a feature list of floats, one slice per step; replaces one of the same name.
    pub fn f32s_list(&mut self, name: impl Into<String>, steps: &[impl AsRef<[f32]>]) -> &mut Self {
        self.set(name.into(), steps.iter().map(|step| feature_of_f32s(step.as_ref())))
    }

    /// Sets a feature list of integers, one slice per step; replaces one of the same name.
    pub fn i64s_list(&mut self, name: impl Into<String>, steps: &[impl AsRef<[i64]>]) -> &mut Self {
        self.set(name.into(), steps.iter().map(|step| feature_of_i64s(step.as_ref())))
    }

    /// Sets a feature list of byte strings, one list per step; replaces one of the same name.
    pub fn bytes_list<B: AsRef<[u8]>>(&mut self, name: impl Into<String>, steps: &[Vec<B>]) -> &mut Self {
        self.set(name.into(), steps.iter().map(|step| feature_of_bytes(step)))
    }

    /// The record.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut record = Vec::new();
        put_bytes(1, &self.context.encode_features(), &mut record);
        put_bytes(2, &encode_map(&self.lists), &mut record);
        record
    }

    fn set(&mut self, name: String, steps: impl Iterator<Item = Vec<u8>>) -> &mut Self {
        let mut list = Vec::new();
        steps.for_each(|step| put_bytes(1, &step, &mut list));
        self.lists.insert(name, list);
        self
    }
}
