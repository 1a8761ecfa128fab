//! Reads all features of a record, for tools that do not know them in advance.

use super::{FeatureKind, proto};
use phalanx_base::{Code, Context, Result};
use prost::Message;

/// One feature with all its values.
#[derive(Clone, Debug, PartialEq)]
pub enum Feature {
    /// A `float_list`.
    F32(Vec<f32>),
    /// An `int64_list`.
    I64(Vec<i64>),
    /// A `bytes_list`.
    Bytes(Vec<Vec<u8>>),
    /// A feature without a list.
    None,
}

/// An Example or SequenceExample with all its features.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AnyExample {
    /// The features of an Example, or the context of a SequenceExample, sorted by name.
    pub features: Vec<(String, Feature)>,
    /// The feature lists of a SequenceExample, sorted by name: a feature per step.
    pub lists: Vec<(String, Vec<Feature>)>,
}

/// Reads a serialized Example or SequenceExample; the first is the second without feature lists.
///
/// ```
/// use phalanx_formats::example::{ExampleWriter, Feature, read_any_example};
/// let record = ExampleWriter::new().i64s("label", &[1]).encode();
/// assert_eq!(read_any_example(&record)?.features, [("label".to_owned(), Feature::I64(vec![1]))]);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
///
/// # Errors
/// When it is neither.
pub fn read_any_example(record: &[u8]) -> Result<AnyExample> {
    let message = proto::SequenceExample::decode(record).context(Code::DataFormat, "a record is no Example")?;
    let features = message.context.unwrap_or_default().feature;
    let lists = message.feature_lists.unwrap_or_default().feature_list;
    let steps = |list: proto::FeatureList| list.feature.into_iter().map(Feature::from).collect();
    Ok(AnyExample {
        features: features.into_iter().map(|(name, feature)| (name, feature.into())).collect(),
        lists: lists.into_iter().map(|(name, list)| (name, steps(list))).collect(),
    })
}

impl Feature {
    /// The type of its values, if it has a list.
    #[must_use]
    pub fn kind(&self) -> Option<FeatureKind> {
        match self {
            Self::F32(_) => Some(FeatureKind::F32),
            Self::I64(_) => Some(FeatureKind::I64),
            Self::Bytes(_) => Some(FeatureKind::Bytes),
            Self::None => None,
        }
    }

    /// How many values it has.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::I64(values) => values.len(),
            Self::Bytes(values) => values.len(),
            Self::None => 0,
        }
    }

    /// Whether it has no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<proto::Feature> for Feature {
    fn from(feature: proto::Feature) -> Self {
        match feature.kind {
            Some(proto::feature::Kind::BytesList(list)) => Self::Bytes(list.value),
            Some(proto::feature::Kind::FloatList(list)) => Self::F32(list.value),
            Some(proto::feature::Kind::Int64List(list)) => Self::I64(list.value),
            None => Self::None,
        }
    }
}
