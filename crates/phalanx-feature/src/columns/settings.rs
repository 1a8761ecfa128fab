//! The settings of columns: the keyword arguments of `tf.feature_column`.

use super::function::{NumericFunction, NumericFunctions};
use super::kind::{Categorical, ColumnKind, Embedding, Numeric};
use super::time::{TimePart, TimeUnit};
use super::tokens::Vocabulary;
use super::{Combiner, EmbeddingInitializer, FeatureColumn};
use phalanx_data::DType;
use std::sync::Arc;

/// A default: numbers for a numeric column, an id for a categorical one.
#[derive(Clone, Debug)]
pub struct DefaultValue {
    values: Vec<f64>,
    /// The value as an id, if it is a single integer.
    id: Option<i64>,
}

macro_rules! default_from {
    ($($type:ty: $value:ident => $values:expr, $id:expr;)*) => {$(
        impl From<$type> for DefaultValue {
            fn from($value: $type) -> Self {
                Self { values: $values, id: $id }
            }
        }
    )*};
}

default_from! {
    f64: value => vec![value], None;
    f32: value => vec![value.into()], None;
    i64: value => vec![value as f64], Some(value);
    i32: value => vec![value.into()], Some(value.into());
    Vec<f64>: values => values, None;
}

impl FeatureColumn {
    /// Applies a setting, or records an error if the column does not have it.
    fn set(mut self, setting: &str, change: impl FnOnce(&mut ColumnKind) -> Option<()>) -> Self {
        match change(&mut self.kind) {
            Some(()) => self,
            None => {
                let why = format!("a {} has no setting {setting}, or not with such a value", self.kind.function());
                self.refuse_with(why)
            }
        }
    }

    fn set_numeric(self, setting: &str, change: impl FnOnce(&mut Numeric)) -> Self {
        self.set(setting, |kind| match kind {
            ColumnKind::Numeric(numeric) | ColumnKind::SequenceNumeric(numeric) => {
                change(numeric);
                Some(())
            }
            _ => None,
        })
    }

    fn set_categorical(self, setting: &str, change: impl FnOnce(&mut Categorical) -> Option<()>) -> Self {
        self.set(setting, |kind| match kind {
            ColumnKind::Categorical(column) => change(column.settable()),
            _ => None,
        })
    }

    fn set_embedding(self, setting: &str, change: impl FnOnce(&mut Embedding)) -> Self {
        self.set(setting, |kind| match kind {
            ColumnKind::Embedding(embedding) => {
                change(embedding);
                Some(())
            }
            _ => None,
        })
    }

    /// Sets the shape of the value of each row of a numeric column. The default is `[1]`.
    #[must_use]
    pub fn shape(self, shape: impl Into<Vec<usize>>) -> Self {
        self.set_numeric("shape", |numeric| numeric.shape = shape.into())
    }

    /// Sets the type of the input: `F32` or `I64` for numeric columns and weights, `Bytes` or `I64` for hashes and
    /// vocabulary files.
    #[must_use]
    pub fn dtype(self, wanted: DType) -> Self {
        self.set("dtype", |kind| {
            let number = matches!(wanted, DType::F32 | DType::I64);
            let token = matches!(wanted, DType::Bytes | DType::I64);
            match kind {
                ColumnKind::Numeric(numeric) | ColumnKind::SequenceNumeric(numeric) if number => numeric.dtype = wanted,
                ColumnKind::Categorical(column) => match column.settable() {
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

    /// Sets the default. For numeric columns it replaces a missing feature when examples are parsed, and pads sequences.
    /// For categorical columns it is the id of unknown or out-of-range values, which are otherwise dropped.
    #[must_use]
    pub fn default_value(self, value: impl Into<DefaultValue>) -> Self {
        let value = value.into();
        self.set("default_value", |kind| match kind {
            ColumnKind::Numeric(numeric) | ColumnKind::SequenceNumeric(numeric) => {
                numeric.default = Some(value.values);
                Some(())
            }
            ColumnKind::Categorical(column) => match column.settable() {
                Categorical::Identity { default, .. } | Categorical::Vocabulary { default, .. } => {
                    *default = Some(value.id?);
                    Some(())
                }
                _ => None,
            },
            _ => None,
        })
    }

    /// Sets the function of a numeric column, which is applied to every value, in place of all set before.
    ///
    /// Exported models contain it if it is linear. [`Self::log1p`] and its siblings are exported as they are.
    #[must_use]
    pub fn normalizer_fn(self, normalizer: impl Fn(f32) -> f32 + Send + Sync + 'static) -> Self {
        let function = NumericFunctions(vec![NumericFunction::Custom(Arc::new(normalizer))]);
        self.set_numeric("normalizer_fn", |numeric| numeric.functions = function)
    }

    /// Adds a function after those that a numeric column has.
    fn then(self, setting: &str, function: NumericFunction) -> Self {
        self.set_numeric(setting, |numeric| numeric.functions.0.push(function))
    }

    /// Applies the logarithm of `1 + x` to the values of a numeric column; functions apply in the order of their calls.
    ///
    /// ```
    /// use phalanx_data::{Batch, Column};
    /// use phalanx_feature::{Transform, numeric_column};
    /// let price = numeric_column("price").clip(0.0, 1e6).log1p();
    /// let batch = Batch::new([("price", Column::f32(vec![-3.0, 0.0]))])?;
    /// assert_eq!(Transform::dense_features(&[price])?.apply(&batch)?.dense, [0.0, 0.0]);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    #[must_use]
    pub fn log1p(self) -> Self {
        self.then("log1p", NumericFunction::Log1p)
    }

    /// Applies the square root to the values of a numeric column.
    #[must_use]
    pub fn sqrt(self) -> Self {
        self.then("sqrt", NumericFunction::Sqrt)
    }

    /// Raises smaller values of a numeric column to `min`, and lowers larger ones to `max`.
    #[must_use]
    pub fn clip(self, min: f32, max: f32) -> Self {
        self.then("clip", NumericFunction::Clip { min, max })
    }

    /// Subtracts a number from the values of a numeric column, then divides them by another.
    #[must_use]
    pub fn scale(self, subtract: f32, divide: f32) -> Self {
        self.then("scale", NumericFunction::Scale { subtract, divide })
    }

    /// Subtracts the mean from the values of a numeric column and divides them by their standard deviation. Both come
    /// from the data: see [`FeatureStatistics`](crate::FeatureStatistics).
    #[must_use]
    pub fn standardize(self) -> Self {
        self.then("standardize", NumericFunction::Standardize)
    }

    /// Adds an indicator to every value of a numeric column: 1 if the value is missing, else 0. The features of a row are
    /// its values, with the default (or 0) in place of missing ones, and then the indicators.
    ///
    /// NaN marks a missing value of the input: examples are parsed so, and readers mark missing values so if NaN is their
    /// default.
    ///
    /// ```
    /// use phalanx_data::{Batch, Column};
    /// use phalanx_feature::{Transform, numeric_column};
    /// let age = numeric_column("age").default_value(40.0).missing_indicator();
    /// let batch = Batch::new([("age", Column::f32(vec![25.0, f32::NAN]))])?;
    /// assert_eq!(Transform::dense_features(&[age])?.apply(&batch)?.dense, [25.0, 0.0, 40.0, 1.0]);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    #[must_use]
    pub fn missing_indicator(self) -> Self {
        self.set("missing_indicator", |kind| match kind {
            ColumnKind::Numeric(numeric) => {
                numeric.missing_indicator = true;
                Some(())
            }
            _ => None,
        })
    }

    /// Reads a part of a timestamp as the number of a numeric column. A missing timestamp has the default, or 0.
    ///
    /// ```
    /// use phalanx_data::{Batch, Column};
    /// use phalanx_feature::{TimePart, TimeUnit, Transform, numeric_column};
    /// let hour = numeric_column("seen").time_part(TimePart::Hour, TimeUnit::Iso).scale(0.0, 24.0);
    /// assert_eq!(hour.name(), "seen_hour");
    /// let batch = Batch::new([("seen", Column::text(["2024-05-31T18:30:59Z", "2024-06-02"]))])?;
    /// assert_eq!(Transform::dense_features(&[hour])?.apply(&batch)?.dense, [0.75, 0.0]);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    #[must_use]
    pub fn time_part(self, part: TimePart, unit: TimeUnit) -> Self {
        self.set("time_part", |kind| match kind {
            ColumnKind::Numeric(numeric) => {
                numeric.time = Some((part, unit));
                Some(())
            }
            _ => None,
        })
    }

    /// Sets the delimiter of texts that hold several values: with `"|"`, `"Action|Comedy"` are two. Empty values are
    /// dropped. A column of integers then reads texts, such as `"17|4"`.
    ///
    /// ```
    /// use phalanx_data::{Batch, Column};
    /// use phalanx_feature::{Transform, categorical_column_with_vocabulary_list};
    /// let genres = categorical_column_with_vocabulary_list("genres", ["Action", "Comedy"]).split("|");
    /// let batch = Batch::new([("genres", Column::text(["Comedy|Action", "", "Comedy||"]))])?;
    /// let features = Transform::linear_model(&[genres])?.apply(&batch)?;
    /// assert_eq!((&features.sparse[0].ids[..], &features.sparse[0].splits[..]), (&[1, 0, 1][..], &[0, 2, 2, 3][..]));
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    #[must_use]
    pub fn split(self, delimiter: impl Into<Arc<str>>) -> Self {
        self.set_categorical("split", |column| match column {
            Categorical::Identity { split, .. }
            | Categorical::Hash { split, .. }
            | Categorical::Vocabulary { split, .. } => {
                *split = Some(delimiter.into());
                Some(())
            }
            _ => None,
        })
    }

    /// Sets the number of lines of a vocabulary file to use. The default is all lines.
    #[must_use]
    pub fn vocabulary_size(self, wanted: usize) -> Self {
        self.set_categorical("vocabulary_size", |column| match column {
            Categorical::Vocabulary { vocabulary: vocabulary @ Vocabulary::File { .. }, .. } => {
                let Vocabulary::File { path, dtype, .. } = vocabulary else { return None };
                *vocabulary = Vocabulary::file(path.clone(), Some(wanted), *dtype);
                Some(())
            }
            _ => None,
        })
    }

    /// Sets the number of hash buckets for values outside the vocabulary. The default is 0.
    #[must_use]
    pub fn num_oov_buckets(self, buckets: usize) -> Self {
        self.set_categorical("num_oov_buckets", |column| match column {
            Categorical::Vocabulary { oov_buckets, .. } => {
                *oov_buckets = buckets;
                Some(())
            }
            _ => None,
        })
    }

    /// Sets the key of a cross's hash; 0 means TensorFlow's default key.
    #[must_use]
    pub fn hash_key(self, key: u64) -> Self {
        self.set("hash_key", |kind| match kind {
            ColumnKind::Categorical(Categorical::Crossed { hash_key, .. }) => {
                // TensorFlow reads 0 as "not given".
                *hash_key = if key == 0 { super::make::DEFAULT_HASH_KEY } else { key };
                Some(())
            }
            _ => None,
        })
    }

    /// Sets how the vectors of an embedding are combined. The default is their mean.
    #[must_use]
    pub fn combiner(self, combiner: Combiner) -> Self {
        self.set_embedding("combiner", |embedding| embedding.combiner = combiner)
    }

    /// Sets the initial values of an embedding. The default is a truncated normal distribution with a standard deviation of
    /// 1/√dimension.
    #[must_use]
    pub fn initializer(self, initializer: EmbeddingInitializer) -> Self {
        self.set_embedding("initializer", |embedding| embedding.table.initializer = initializer)
    }

    /// Sets the maximum L2 norm of the vectors of an embedding: longer ones are scaled down before they are combined.
    #[must_use]
    pub fn max_norm(self, norm: f32) -> Self {
        self.set_embedding("max_norm", |embedding| embedding.max_norm = Some(norm))
    }

    /// Sets whether to train an embedding. The default is true.
    #[must_use]
    pub fn trainable(self, trainable: bool) -> Self {
        self.set_embedding("trainable", |embedding| embedding.table.trainable = trainable)
    }
}
