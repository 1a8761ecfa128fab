//! What can be said about a column beyond what its function takes: the keyword arguments of `tf.feature_column`.

use super::kind::{Categorical, Kind};
use super::tokens::Vocabulary;
use super::{Combiner, FeatureColumn, Initializer};
use phalanx_data::DType;
use std::sync::Arc;

/// What stands in for a value: numbers for a numeric column, an id for a categorical one.
#[derive(Clone, Debug)]
pub struct DefaultValue {
    values: Vec<f64>,
    /// The value as an id, where it is one whole number.
    id: Option<i64>,
}

impl From<f64> for DefaultValue {
    fn from(value: f64) -> Self {
        Self { values: vec![value], id: None }
    }
}

impl From<f32> for DefaultValue {
    fn from(value: f32) -> Self {
        f64::from(value).into()
    }
}

impl From<i64> for DefaultValue {
    fn from(value: i64) -> Self {
        Self { values: vec![value as f64], id: Some(value) }
    }
}

impl From<i32> for DefaultValue {
    fn from(value: i32) -> Self {
        i64::from(value).into()
    }
}

impl From<Vec<f64>> for DefaultValue {
    fn from(values: Vec<f64>) -> Self {
        Self { values, id: None }
    }
}

impl FeatureColumn {
    /// Changes a setting that the column may not have.
    fn set(mut self, setting: &str, change: impl FnOnce(&mut Kind) -> Option<()>) -> Self {
        match change(&mut self.kind) {
            Some(()) => self,
            None => {
                let why = format!("a {} has no setting {setting}, or not with such a value", self.kind.function());
                self.refuse_with(why)
            }
        }
    }

    /// How many values a row of a numeric column has, by dimension: `[1]`, unless said otherwise.
    #[must_use]
    pub fn shape(self, shape: impl Into<Vec<usize>>) -> Self {
        self.set("shape", |kind| match kind {
            Kind::Numeric(numeric) | Kind::SequenceNumeric(numeric) => {
                numeric.shape = shape.into();
                Some(())
            }
            _ => None,
        })
    }

    /// The type of the input: for numeric columns and weights `F32` or `I64`, for hashes and vocabulary files `Bytes`
    /// or `I64`.
    #[must_use]
    pub fn dtype(self, wanted: DType) -> Self {
        self.set("dtype", |kind| {
            let number = matches!(wanted, DType::F32 | DType::I64);
            let token = matches!(wanted, DType::Bytes | DType::I64);
            match kind {
                Kind::Numeric(numeric) | Kind::SequenceNumeric(numeric) if number => numeric.dtype = wanted,
                Kind::Categorical(column) => match column.settable() {
                    Categorical::Hash { dtype, .. } if token => *dtype = wanted,
                    Categorical::Weighted { dtype, .. } if number => *dtype = wanted,
                    Categorical::Vocabulary { vocabulary, .. } => match vocabulary {
                        Vocabulary::List(tokens) if tokens.dtype() == wanted => {}
                        Vocabulary::File { path, size, .. } if token => {
                            *vocabulary = Vocabulary::file(path.clone(), *size, wanted);
                        }
                        _ => return None,
                    },
                    _ => return None,
                },
                _ => return None,
            }
            Some(())
        })
    }

    /// Numeric columns: what a missing feature is when examples are parsed (and what pads a sequence). Categorical
    /// columns: the id of values that are out of range or not in the vocabulary; without it they are dropped.
    #[must_use]
    pub fn default_value(self, value: impl Into<DefaultValue>) -> Self {
        let value = value.into();
        self.set("default_value", |kind| match kind {
            Kind::Numeric(numeric) | Kind::SequenceNumeric(numeric) => {
                numeric.default = Some(value.values);
                Some(())
            }
            Kind::Categorical(column) => match column.settable() {
                Categorical::Identity { default, .. } | Categorical::Vocabulary { default, .. } => {
                    *default = Some(value.id?);
                    Some(())
                }
                _ => None,
            },
            _ => None,
        })
    }

    /// A function over every value of a numeric column, called before anything else sees the value.
    #[must_use]
    pub fn normalizer_fn(self, normalizer: impl Fn(f32) -> f32 + Send + Sync + 'static) -> Self {
        self.set("normalizer_fn", |kind| match kind {
            Kind::Numeric(numeric) | Kind::SequenceNumeric(numeric) => {
                numeric.normalizer = Some(Arc::new(normalizer));
                Some(())
            }
            _ => None,
        })
    }

    /// How many lines of a vocabulary file count: all, unless said otherwise.
    #[must_use]
    pub fn vocabulary_size(self, wanted: usize) -> Self {
        self.set("vocabulary_size", |kind| match kind {
            Kind::Categorical(column) => match column.settable() {
                Categorical::Vocabulary { vocabulary, .. } => match vocabulary {
                    Vocabulary::File { path, dtype, .. } => {
                        *vocabulary = Vocabulary::file(path.clone(), Some(wanted), *dtype);
                        Some(())
                    }
                    Vocabulary::List(_) => None,
                },
                _ => None,
            },
            _ => None,
        })
    }

    /// How many ids values that are not in the vocabulary share by their fingerprint: none, unless said otherwise.
    #[must_use]
    pub fn num_oov_buckets(self, buckets: usize) -> Self {
        self.set("num_oov_buckets", |kind| match kind {
            Kind::Categorical(column) => match column.settable() {
                Categorical::Vocabulary { oov_buckets, .. } => {
                    *oov_buckets = buckets;
                    Some(())
                }
                _ => None,
            },
            _ => None,
        })
    }

    /// Where the fingerprint of a cross begins; 0 is TensorFlow's own key.
    #[must_use]
    pub fn hash_key(self, key: u64) -> Self {
        self.set("hash_key", |kind| match kind {
            Kind::Categorical(Categorical::Crossed { hash_key, .. }) => {
                // TensorFlow reads 0 as "not given".
                *hash_key = if key == 0 { super::make::DEFAULT_HASH_KEY } else { key };
                Some(())
            }
            _ => None,
        })
    }

    /// How the rows of an embedding become one vector: their mean, unless said otherwise.
    #[must_use]
    pub fn combiner(self, combiner: Combiner) -> Self {
        self.set("combiner", |kind| match kind {
            Kind::Embedding(embedding) => {
                embedding.combiner = combiner;
                Some(())
            }
            _ => None,
        })
    }

    /// How the rows of an embedding begin: truncated normal with a deviation of 1/√dimension, unless said otherwise.
    #[must_use]
    pub fn initializer(self, initializer: Initializer) -> Self {
        self.set("initializer", |kind| match kind {
            Kind::Embedding(embedding) => {
                embedding.table.initializer = initializer;
                Some(())
            }
            _ => None,
        })
    }

    /// Shortens longer rows of an embedding to this length before they are combined.
    #[must_use]
    pub fn max_norm(self, norm: f32) -> Self {
        self.set("max_norm", |kind| match kind {
            Kind::Embedding(embedding) => {
                embedding.max_norm = Some(norm);
                Some(())
            }
            _ => None,
        })
    }

    /// Whether training changes an embedding: it does, unless said otherwise.
    #[must_use]
    pub fn trainable(self, trainable: bool) -> Self {
        self.set("trainable", |kind| match kind {
            Kind::Embedding(embedding) => {
                embedding.table.trainable = trainable;
                Some(())
            }
            _ => None,
        })
    }
}
