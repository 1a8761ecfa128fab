//! The kinds of columns.

use super::function::NumericFunctions;
use super::time::{TimePart, TimeUnit};
use super::tokens::Vocabulary;
use super::{Combiner, EmbeddingTable};
use phalanx_data::DType;
use std::sync::Arc;

/// A kind of column.
#[derive(Clone)]
pub(crate) enum ColumnKind {
    Numeric(Numeric),
    SequenceNumeric(Numeric),
    Categorical(Categorical),
    Indicator(Categorical),
    Embedding(Embedding),
}

#[derive(Clone)]
pub(crate) struct Numeric {
    pub(crate) key: Arc<str>,
    pub(crate) shape: Vec<usize>,
    pub(crate) dtype: DType,
    /// One value for all elements, or one for each.
    pub(crate) default: Option<Vec<f64>>,
    pub(crate) functions: NumericFunctions,
    /// Whether the features have a second number for each value: 1 where the value is missing, else 0.
    pub(crate) missing_indicator: bool,
    /// The part of a timestamp that is the number, if the input holds timestamps.
    pub(crate) time: Option<(TimePart, TimeUnit)>,
}

impl Numeric {
    /// The number of values per row, or per step of a sequence.
    pub(crate) fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// The number of features per row: the values, then their indicators if there are any.
    pub(crate) fn width(&self) -> usize {
        if self.missing_indicator { 2 * self.elements() } else { self.elements() }
    }

    /// Whether NaN marks a missing value.
    pub(crate) fn marks_missing(&self) -> bool {
        self.missing_indicator || self.time.is_some()
    }

    /// The default of a value; 0 without one.
    pub(crate) fn default_of(&self, element: usize) -> f32 {
        let default = match self.default.as_deref() {
            Some(&[one]) => one,
            Some(all) => all.get(element).copied().unwrap_or_default(),
            None => 0.0,
        };
        default as f32
    }

    /// The value that functions get: the default in place of a missing value.
    #[inline]
    pub(crate) fn filled(&self, element: usize, value: f32) -> f32 {
        if value.is_nan() && self.marks_missing() { self.default_of(element) } else { value }
    }

    pub(crate) fn name(&self) -> String {
        match self.time {
            Some((part, _)) => format!("{}_{}", self.key, part.name()),
            None => self.key.to_string(),
        }
    }
}

/// The delimiter of texts that hold several values, if they do.
pub(crate) type Split = Option<Arc<str>>;

/// The boundaries of a bucketized column.
#[derive(Clone)]
pub(crate) enum Boundaries {
    Given(Arc<[f32]>),
    /// The quantiles of the data that make this number of buckets; not known yet.
    Quantiles(usize),
}

#[derive(Clone)]
pub(crate) enum Categorical {
    Identity { key: Arc<str>, split: Split, buckets: usize, default: Option<i64> },
    Hash { key: Arc<str>, split: Split, buckets: usize, dtype: DType },
    Vocabulary { key: Arc<str>, split: Split, vocabulary: Vocabulary, default: Option<i64>, oov_buckets: usize },
    Bucketized { source: Numeric, boundaries: Boundaries },
    Time { key: Arc<str>, part: TimePart, unit: TimeUnit },
    Crossed { parts: Vec<CrossInput>, buckets: usize, hash_key: u64 },
    Weighted { column: Box<Categorical>, weight_key: Arc<str>, dtype: DType },
    Sequence(Box<Categorical>),
}

/// An input of a cross.
#[derive(Clone)]
pub(crate) enum CrossInput {
    Key(Arc<str>),
    Column(Categorical),
}

#[derive(Clone)]
pub(crate) struct Embedding {
    pub(crate) column: Categorical,
    pub(crate) table: EmbeddingTable,
    pub(crate) combiner: Combiner,
    pub(crate) max_norm: Option<f32>,
    /// Whether several columns share the table.
    pub(crate) shared: bool,
}

impl ColumnKind {
    /// TensorFlow's name of the column.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Numeric(numeric) | Self::SequenceNumeric(numeric) => numeric.name(),
            Self::Categorical(column) => column.name(),
            Self::Indicator(column) => format!("{}_indicator", column.name()),
            Self::Embedding(embedding) if embedding.shared => format!("{}_shared_embedding", embedding.column.name()),
            Self::Embedding(embedding) => format!("{}_embedding", embedding.column.name()),
        }
    }

    /// The function that makes such columns, for messages.
    pub(crate) fn function(&self) -> &'static str {
        match self {
            Self::Numeric(_) => "numeric_column",
            Self::SequenceNumeric(_) => "sequence_numeric_column",
            Self::Categorical(column) => column.function(),
            Self::Indicator(_) => "indicator_column",
            Self::Embedding(embedding) if embedding.shared => "shared_embeddings",
            Self::Embedding(_) => "embedding_column",
        }
    }
}

impl Categorical {
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Identity { key, .. } | Self::Hash { key, .. } | Self::Vocabulary { key, .. } => key.to_string(),
            Self::Bucketized { source, .. } => format!("{}_bucketized", source.name()),
            Self::Time { key, part, .. } => format!("{key}_{}", part.name()),
            Self::Crossed { parts, .. } => {
                let mut names: Vec<String> = leaves(parts).into_iter().map(CrossInput::name).collect();
                names.sort_unstable();
                names.join("_X_")
            }
            Self::Weighted { column, weight_key, .. } => format!("{}_weighted_by_{weight_key}", column.name()),
            Self::Sequence(column) => column.name(),
        }
    }

    pub(crate) fn function(&self) -> &'static str {
        match self {
            Self::Identity { .. } => "categorical_column_with_identity",
            Self::Hash { .. } => "categorical_column_with_hash_bucket",
            Self::Vocabulary { vocabulary, .. } => vocabulary.function(),
            Self::Bucketized { .. } => "bucketized_column",
            Self::Time { .. } => "timestamp_column",
            Self::Crossed { .. } => "crossed_column",
            Self::Weighted { .. } => "weighted_categorical_column",
            Self::Sequence(_) => "sequence_categorical_column",
        }
    }

    /// The innermost column.
    pub(crate) fn base(&self) -> &Self {
        match self {
            Self::Weighted { column, .. } | Self::Sequence(column) => column.base(),
            _ => self,
        }
    }

    /// The column that settings apply to: a sequence has those of its inner column.
    pub(crate) fn settable(&mut self) -> &mut Self {
        match self {
            Self::Sequence(column) => column.settable(),
            _ => self,
        }
    }

    pub(crate) fn is_sequence(&self) -> bool {
        match self {
            Self::Sequence(_) => true,
            Self::Weighted { column, .. } => column.is_sequence(),
            _ => false,
        }
    }
}

impl CrossInput {
    fn name(&self) -> String {
        match self {
            Self::Key(key) => key.to_string(),
            Self::Column(column) => column.name(),
        }
    }
}

/// The inputs of a cross, with nested crosses flattened.
pub(crate) fn leaves(parts: &[CrossInput]) -> Vec<&CrossInput> {
    let mut flat = Vec::with_capacity(parts.len());
    for part in parts {
        match part {
            CrossInput::Column(Categorical::Crossed { parts, .. }) => flat.extend(leaves(parts)),
            other => flat.push(other),
        }
    }
    flat
}
