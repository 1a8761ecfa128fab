//! The functions of `tf.feature_column`, under the same names.

use super::kind::{Boundaries, Categorical, ColumnKind, CrossInput, Embedding, Numeric};
use super::time::{TimePart, TimeUnit};
use super::tokens::{Vocabulary, VocabularyToken};
use super::{Combiner, EmbeddingInitializer, EmbeddingTable, FeatureColumn};
use phalanx_data::DType;
use std::path::PathBuf;
use std::sync::Arc;

/// The default key of `tf.sparse.cross_hashed`.
pub(crate) const DEFAULT_HASH_KEY: u64 = 0xDE_CAFC_AFFE;

/// Implements the conversions from a key.
macro_rules! from_keys {
    ($type:ident, $key:ident => $made:expr) => {
        impl From<&str> for $type {
            fn from($key: &str) -> Self {
                Self($made)
            }
        }

        impl From<String> for $type {
            fn from($key: String) -> Self {
                Self($made)
            }
        }
    };
}

/// Returns a column of unchanged numbers, one per row unless [`FeatureColumn::shape`] is set.
pub fn numeric_column(key: impl Into<Arc<str>>) -> FeatureColumn {
    FeatureColumn::new(ColumnKind::Numeric(numeric(key.into())))
}

fn numeric(key: Arc<str>) -> Numeric {
    Numeric {
        key,
        shape: vec![1],
        dtype: DType::F32,
        default: None,
        functions: Default::default(),
        missing_indicator: false,
        time: None,
    }
}

/// The source of a bucketized column: a numeric column, or the key of one.
pub struct NumericSource(FeatureColumn);

from_keys!(NumericSource, key => numeric_column(key));

impl From<FeatureColumn> for NumericSource {
    fn from(column: FeatureColumn) -> Self {
        Self(column)
    }
}

/// Returns a column of numbers by bucket: `n` boundaries make `n + 1` buckets. A bucket includes its lower bound and
/// excludes its upper bound.
///
/// ```
/// use phalanx_feature::{bucketized_column, numeric_column};
/// assert_eq!(bucketized_column("age", [18, 25, 65]).name(), "age_bucketized");
/// let scaled = bucketized_column(numeric_column("age").normalizer_fn(|age| age / 100.0), [0.18, 0.65]);
/// assert_eq!(scaled.num_buckets()?, Some(3));
/// # Ok::<(), phalanx_base::Error>(())
/// ```
pub fn bucketized_column<B: Into<f64>>(
    source: impl Into<NumericSource>,
    boundaries: impl IntoIterator<Item = B>,
) -> FeatureColumn {
    let NumericSource(column) = source.into();
    let boundaries: Vec<f64> = boundaries.into_iter().map(Into::into).collect();
    let sorted = boundaries.windows(2).all(|pair| pair[0] < pair[1]) && boundaries.iter().all(|b| !b.is_nan());
    let (kind, error) = column.into_parts();
    let ColumnKind::Numeric(source) = kind else {
        return FeatureColumn::new(kind).refuse(error).refuse_with("a bucketized_column needs a numeric_column");
    };
    let made = FeatureColumn::new(ColumnKind::Categorical(Categorical::Bucketized {
        source,
        boundaries: Boundaries::Given(boundaries.iter().map(|&boundary| boundary as f32).collect()),
    }))
    .refuse(error);
    match (boundaries.is_empty(), sorted) {
        (true, _) => made.refuse_with("the boundaries of a bucketized_column must not be empty"),
        (_, false) => made.refuse_with("the boundaries of a bucketized_column must be in increasing order"),
        _ => made,
    }
}

/// Returns a [`bucketized_column`] whose boundaries are quantiles of the data: about the same number of rows in each of
/// `buckets` buckets. Quantiles that are equal, as of a value that many rows have, become one.
///
/// ```
/// use phalanx_data::{Batch, Column, Dataset};
/// use phalanx_feature::{FeatureStatistics, quantile_column};
/// let rows = Dataset::from_tensor_slices(Batch::new([("age", Column::f32((0..100).map(|age| age as f32).collect()))])?);
/// let ages = quantile_column("age", 4);
/// let statistics = FeatureStatistics::of(std::slice::from_ref(&ages), &rows)?;
/// assert_eq!(ages.adapted(&statistics)?.num_buckets()?, Some(4));
/// # Ok::<(), phalanx_base::Error>(())
/// ```
pub fn quantile_column(source: impl Into<NumericSource>, buckets: usize) -> FeatureColumn {
    let NumericSource(column) = source.into();
    match column.into_parts() {
        (ColumnKind::Numeric(source), error) => {
            categorical(Categorical::Bucketized { source, boundaries: Boundaries::Quantiles(buckets) }).refuse(error)
        }
        (kind, error) => FeatureColumn::new(kind).refuse(error).refuse_with("a quantile_column needs a numeric_column"),
    }
}

/// Returns a column of a part of a timestamp, in UTC, as ids from 0 on. Its name is that of the key and the part.
///
/// ```
/// use phalanx_data::{Batch, Column};
/// use phalanx_feature::{TimePart, TimeUnit, Transform, indicator_column, timestamp_column};
/// let weekday = timestamp_column("seen", TimePart::Weekday, TimeUnit::Iso);
/// assert_eq!((weekday.name().as_str(), weekday.num_buckets()?), ("seen_weekday", Some(7)));
/// let batch = Batch::new([("seen", Column::text(["2024-05-31", "2024-06-02T10:00:00Z"]))])?;
/// let features = Transform::linear_model(&[weekday])?.apply(&batch)?;
/// assert_eq!(features.sparse[0].ids, [4, 6]);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
pub fn timestamp_column(key: impl Into<Arc<str>>, part: TimePart, unit: TimeUnit) -> FeatureColumn {
    categorical(Categorical::Time { key: key.into(), part, unit })
}

fn categorical(column: Categorical) -> FeatureColumn {
    FeatureColumn::new(ColumnKind::Categorical(column))
}

/// The number of buckets of a column whose ids have no bound: its table grows with the ids that are seen.
///
/// ```
/// use phalanx_feature::{UNBOUNDED, categorical_column_with_identity, embedding_column};
/// let user = embedding_column(categorical_column_with_identity("user", UNBOUNDED), 16);
/// # let _ = user;
/// ```
pub const UNBOUNDED: usize = i64::MAX as usize;

/// Returns a column of integers that are ids below `num_buckets`, which may be [`UNBOUNDED`].
pub fn categorical_column_with_identity(key: impl Into<Arc<str>>, num_buckets: usize) -> FeatureColumn {
    categorical(Categorical::Identity { key: key.into(), split: None, buckets: num_buckets, default: None })
}

/// Returns a column of texts (or integers, see [`FeatureColumn::dtype`]) by hash bucket.
pub fn categorical_column_with_hash_bucket(key: impl Into<Arc<str>>, hash_bucket_size: usize) -> FeatureColumn {
    categorical(Categorical::Hash { key: key.into(), split: None, buckets: hash_bucket_size, dtype: DType::Bytes })
}

/// Returns a column of texts or integers by their index in a list.
pub fn categorical_column_with_vocabulary_list<T: Into<VocabularyToken>>(
    key: impl Into<Arc<str>>,
    vocabulary_list: impl IntoIterator<Item = T>,
) -> FeatureColumn {
    let key = key.into();
    match Vocabulary::list(vocabulary_list.into_iter().map(Into::into)) {
        Ok(vocabulary) => with_vocabulary(key, vocabulary),
        Err(error) => {
            let nothing = Vocabulary::file(PathBuf::new(), None, DType::Bytes);
            with_vocabulary(key, nothing).refuse(Some(error))
        }
    }
}

/// Returns a column of texts (or integers, see [`FeatureColumn::dtype`]) by their line number in a file, which is read on
/// first use.
pub fn categorical_column_with_vocabulary_file(
    key: impl Into<Arc<str>>,
    vocabulary_file: impl Into<PathBuf>,
) -> FeatureColumn {
    with_vocabulary(key.into(), Vocabulary::file(vocabulary_file.into(), None, DType::Bytes))
}

fn with_vocabulary(key: Arc<str>, vocabulary: Vocabulary) -> FeatureColumn {
    categorical(Categorical::Vocabulary { key, split: None, vocabulary, default: None, oov_buckets: 0 })
}

/// An input of a cross: a key, whose raw values are crossed, or a categorical column.
pub struct CrossKey(Result<Arc<str>, FeatureColumn>);

from_keys!(CrossKey, key => Ok(key.into()));

impl From<FeatureColumn> for CrossKey {
    fn from(column: FeatureColumn) -> Self {
        Self(Err(column))
    }
}

/// Returns a column of the combinations of several columns' values, by hash bucket.
///
/// As in TensorFlow, the hash takes ids and ragged inputs first, in order, and then the dense inputs given by key. The ids
/// thus depend on whether an input is dense.
///
/// ```
/// use phalanx_feature::{CrossKey, bucketized_column, crossed_column};
/// let age = bucketized_column("age", [18, 65]);
/// let cross = crossed_column([CrossKey::from(age), "education".into(), "occupation".into()], 1000);
/// assert_eq!(cross.name(), "age_bucketized_X_education_X_occupation");
/// ```
pub fn crossed_column<K: Into<CrossKey>>(keys: impl IntoIterator<Item = K>, hash_bucket_size: usize) -> FeatureColumn {
    let (mut parts, mut error, mut wrong) = (Vec::new(), None, None);
    for key in keys {
        match key.into().0 {
            Ok(key) => parts.push(CrossInput::Key(key)),
            Err(column) => match column.into_parts() {
                (ColumnKind::Categorical(column), inner) => {
                    error = error.or(inner);
                    match column {
                        Categorical::Hash { .. } => {
                            wrong = Some("hashing before crossing makes collisions: cross the key of the column");
                        }
                        Categorical::Weighted { .. } => wrong = Some("a cross takes no weights"),
                        Categorical::Sequence(_) => wrong = Some("a cross takes no sequences"),
                        _ => {}
                    }
                    parts.push(CrossInput::Column(column));
                }
                (_, inner) => {
                    error = error.or(inner);
                    wrong = Some("a cross takes keys and categorical columns");
                }
            },
        }
    }
    if parts.len() < 2 {
        wrong = wrong.or(Some("a cross needs two keys or more"));
    }
    let made = categorical(Categorical::Crossed { parts, buckets: hash_bucket_size, hash_key: DEFAULT_HASH_KEY });
    let made = made.refuse(error);
    match wrong {
        Some(why) => made.refuse_with(why),
        None => made,
    }
}

/// Returns a column of ids that are weighted by another feature.
pub fn weighted_categorical_column(column: FeatureColumn, weight_feature_key: impl Into<Arc<str>>) -> FeatureColumn {
    over(column, "weighted_categorical_column", |column| {
        let column = Box::new(column);
        ColumnKind::Categorical(Categorical::Weighted {
            column,
            weight_key: weight_feature_key.into(),
            dtype: DType::F32,
        })
    })
}

/// Returns a dense column with the count of each id in a row.
pub fn indicator_column(column: FeatureColumn) -> FeatureColumn {
    over(column, "indicator_column", ColumnKind::Indicator)
}

/// Returns a column of trained vectors, one per row, from an embedding table of its own.
///
/// ```
/// use phalanx_feature::{Combiner, categorical_column_with_hash_bucket, embedding_column};
/// let jobs = embedding_column(categorical_column_with_hash_bucket("occupation", 1000), 8).combiner(Combiner::Sqrtn);
/// assert_eq!(jobs.name(), "occupation_embedding");
/// assert_eq!(jobs.table()?.unwrap().rows, 1000);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
pub fn embedding_column(column: FeatureColumn, dimension: usize) -> FeatureColumn {
    over(column, "embedding_column", |column| {
        let table = table(format!("{}_embedding", column.name()), dimension);
        ColumnKind::Embedding(Embedding { column, table, combiner: Combiner::Mean, max_norm: None, shared: false })
    })
}

/// Returns embedding columns that share one table, for features with the same ids.
///
/// The table is named after all columns, sorted by name. Settings apply to each column.
pub fn shared_embeddings(columns: impl IntoIterator<Item = FeatureColumn>, dimension: usize) -> Vec<FeatureColumn> {
    let columns: Vec<FeatureColumn> = columns.into_iter().collect();
    let mut names: Vec<String> = columns.iter().map(FeatureColumn::name).collect();
    names.sort_unstable();
    let name = format!("{}_shared_embedding", names.join("_"));
    shared_embeddings_named(name, columns, dimension)
}

/// Like [`shared_embeddings`], with a name for the table.
pub fn shared_embeddings_named(
    name: impl Into<String>,
    columns: impl IntoIterator<Item = FeatureColumn>,
    dimension: usize,
) -> Vec<FeatureColumn> {
    let name = name.into();
    let columns = columns.into_iter().map(|column| {
        over(column, "shared_embeddings", |column| {
            let table = EmbeddingTable { shared: true, ..table(name.clone(), dimension) };
            ColumnKind::Embedding(Embedding { column, table, combiner: Combiner::Mean, max_norm: None, shared: true })
        })
    });
    columns.collect()
}

/// The number of rows is filled in later, because settings may still change it.
fn table(name: String, dimension: usize) -> EmbeddingTable {
    EmbeddingTable {
        name,
        rows: 0,
        dimension,
        initializer: EmbeddingInitializer::of_dimension(dimension),
        trainable: true,
        shared: false,
    }
}

/// Derives a column from a categorical one.
fn over(column: FeatureColumn, function: &str, make: impl FnOnce(Categorical) -> ColumnKind) -> FeatureColumn {
    match column.into_parts() {
        (ColumnKind::Categorical(column), error) => FeatureColumn::new(make(column)).refuse(error),
        (kind, error) => {
            FeatureColumn::new(kind).refuse(error).refuse_with(format!("{function} needs a categorical column"))
        }
    }
}

fn sequence(column: FeatureColumn) -> FeatureColumn {
    over(column, "a sequence", |column| ColumnKind::Categorical(Categorical::Sequence(Box::new(column))))
}

/// Like [`numeric_column`], with a time axis. The default pads shorter sequences.
pub fn sequence_numeric_column(key: impl Into<Arc<str>>) -> FeatureColumn {
    FeatureColumn::new(ColumnKind::SequenceNumeric(Numeric { default: Some(vec![0.0]), ..numeric(key.into()) }))
}

/// Like [`categorical_column_with_identity`], with a time axis.
pub fn sequence_categorical_column_with_identity(key: impl Into<Arc<str>>, num_buckets: usize) -> FeatureColumn {
    sequence(categorical_column_with_identity(key, num_buckets))
}

/// Like [`categorical_column_with_hash_bucket`], with a time axis.
pub fn sequence_categorical_column_with_hash_bucket(
    key: impl Into<Arc<str>>,
    hash_bucket_size: usize,
) -> FeatureColumn {
    sequence(categorical_column_with_hash_bucket(key, hash_bucket_size))
}

/// Like [`categorical_column_with_vocabulary_list`], with a time axis.
pub fn sequence_categorical_column_with_vocabulary_list<T: Into<VocabularyToken>>(
    key: impl Into<Arc<str>>,
    vocabulary_list: impl IntoIterator<Item = T>,
) -> FeatureColumn {
    sequence(categorical_column_with_vocabulary_list(key, vocabulary_list))
}

/// Like [`categorical_column_with_vocabulary_file`], with a time axis.
pub fn sequence_categorical_column_with_vocabulary_file(
    key: impl Into<Arc<str>>,
    vocabulary_file: impl Into<PathBuf>,
) -> FeatureColumn {
    sequence(categorical_column_with_vocabulary_file(key, vocabulary_file))
}
