//! The functions of `tf.feature_column`, under the same names.

use super::kind::{Categorical, Embedding, Kind, Numeric, Part};
use super::tokens::{Vocabulary, VocabularyToken};
use super::{Combiner, FeatureColumn, Initializer, TableSpec};
use phalanx_data::DType;
use std::path::PathBuf;
use std::sync::Arc;

/// `tf.sparse.cross_hashed`'s own key.
pub(crate) const DEFAULT_HASH_KEY: u64 = 0xDE_CAFC_AFFE;

/// Numbers as they are: one per row, unless [`FeatureColumn::shape`] says otherwise.
pub fn numeric_column(key: impl Into<Arc<str>>) -> FeatureColumn {
    FeatureColumn::new(Kind::Numeric(numeric(key.into())))
}

fn numeric(key: Arc<str>) -> Numeric {
    Numeric { key, shape: vec![1], dtype: DType::F32, default: None, normalizer: None }
}

/// What a bucketized column divides: a numeric column, or the key of one.
pub struct NumericSource(FeatureColumn);

impl From<&str> for NumericSource {
    fn from(key: &str) -> Self {
        Self(numeric_column(key))
    }
}

impl From<String> for NumericSource {
    fn from(key: String) -> Self {
        Self(numeric_column(key))
    }
}

impl From<FeatureColumn> for NumericSource {
    fn from(column: FeatureColumn) -> Self {
        Self(column)
    }
}

/// Numbers as the bucket they fall into: `n` boundaries make `n + 1` buckets, each with its lower bound and without
/// its upper one.
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
    let Kind::Numeric(source) = kind else {
        return FeatureColumn::new(kind).refuse(error).refuse_with("a bucketized_column needs a numeric_column");
    };
    let made = FeatureColumn::new(Kind::Categorical(Categorical::Bucketized {
        source,
        boundaries: boundaries.iter().map(|&boundary| boundary as f32).collect(),
    }))
    .refuse(error);
    match (boundaries.is_empty(), sorted) {
        (true, _) => made.refuse_with("the boundaries of a bucketized_column must not be empty"),
        (_, false) => made.refuse_with("the boundaries of a bucketized_column must rise from one to the next"),
        _ => made,
    }
}

fn categorical(column: Categorical) -> FeatureColumn {
    FeatureColumn::new(Kind::Categorical(column))
}

/// Integers that are ids already, from 0 to `num_buckets`.
pub fn categorical_column_with_identity(key: impl Into<Arc<str>>, num_buckets: usize) -> FeatureColumn {
    categorical(Categorical::Identity { key: key.into(), buckets: num_buckets, default: None })
}

/// Texts (or integers, see [`FeatureColumn::dtype`]) sorted into buckets by their fingerprint.
pub fn categorical_column_with_hash_bucket(key: impl Into<Arc<str>>, hash_bucket_size: usize) -> FeatureColumn {
    categorical(Categorical::Hash { key: key.into(), buckets: hash_bucket_size, dtype: DType::Bytes })
}

/// Texts or integers as their place in a list.
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

/// Texts (or integers, see [`FeatureColumn::dtype`]) as the number of their line in a file, read when first needed.
pub fn categorical_column_with_vocabulary_file(
    key: impl Into<Arc<str>>,
    vocabulary_file: impl Into<PathBuf>,
) -> FeatureColumn {
    with_vocabulary(key.into(), Vocabulary::file(vocabulary_file.into(), None, DType::Bytes))
}

fn with_vocabulary(key: Arc<str>, vocabulary: Vocabulary) -> FeatureColumn {
    categorical(Categorical::Vocabulary { key, vocabulary, default: None, oov_buckets: 0 })
}

/// One side of a cross: a key, whose values are crossed as they are, or a categorical column.
pub struct CrossKey(Result<Arc<str>, FeatureColumn>);

impl From<&str> for CrossKey {
    fn from(key: &str) -> Self {
        Self(Ok(key.into()))
    }
}

impl From<String> for CrossKey {
    fn from(key: String) -> Self {
        Self(Ok(key.into()))
    }
}

impl From<FeatureColumn> for CrossKey {
    fn from(column: FeatureColumn) -> Self {
        Self(Err(column))
    }
}

/// Every combination of the values of several columns, sorted into buckets by fingerprint.
///
/// As in TensorFlow, the hash takes first the parts that are ids or ragged, in their order, then the dense columns
/// named by key: the ids depend on whether an input is dense.
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
            Ok(key) => parts.push(Part::Key(key)),
            Err(column) => match column.into_parts() {
                (Kind::Categorical(column), inner) => {
                    error = error.or(inner);
                    match column {
                        Categorical::Hash { .. } => {
                            wrong = Some("hashing before crossing makes collisions: cross the key of the column");
                        }
                        Categorical::Weighted { .. } => wrong = Some("a cross takes no weights"),
                        Categorical::Sequence(_) => wrong = Some("a cross takes no sequences"),
                        _ => {}
                    }
                    parts.push(Part::Column(column));
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

/// Ids of a categorical column, each with the weight that another feature gives it.
pub fn weighted_categorical_column(column: FeatureColumn, weight_feature_key: impl Into<Arc<str>>) -> FeatureColumn {
    over(column, "weighted_categorical_column", |column| {
        let column = Box::new(column);
        Kind::Categorical(Categorical::Weighted { column, weight_key: weight_feature_key.into(), dtype: DType::F32 })
    })
}

/// The ids of a row as counts: a dense column as wide as there are buckets.
pub fn indicator_column(column: FeatureColumn) -> FeatureColumn {
    over(column, "indicator_column", Kind::Indicator)
}

/// The ids of a row as one vector of a table of their own.
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
        Kind::Embedding(Embedding { column, table, combiner: Combiner::Mean, max_norm: None, shared: false })
    })
}

/// Embedding columns over one table: for features that speak of the same things.
///
/// The table is named after all columns, in the order of their names; settings are made on each of them.
pub fn shared_embeddings(columns: impl IntoIterator<Item = FeatureColumn>, dimension: usize) -> Vec<FeatureColumn> {
    let columns: Vec<FeatureColumn> = columns.into_iter().collect();
    let mut names: Vec<String> = columns.iter().map(FeatureColumn::name).collect();
    names.sort_unstable();
    let name = format!("{}_shared_embedding", names.join("_"));
    shared_embeddings_named(name, columns, dimension)
}

/// [`shared_embeddings`] over a table of a given name.
pub fn shared_embeddings_named(
    name: impl Into<String>,
    columns: impl IntoIterator<Item = FeatureColumn>,
    dimension: usize,
) -> Vec<FeatureColumn> {
    let name = name.into();
    let columns = columns.into_iter().map(|column| {
        over(column, "shared_embeddings", |column| {
            let table = TableSpec { shared: true, ..table(name.clone(), dimension) };
            Kind::Embedding(Embedding { column, table, combiner: Combiner::Mean, max_norm: None, shared: true })
        })
    });
    columns.collect()
}

/// The rows are filled in when the number of buckets is asked for: settings may still change it.
fn table(name: String, dimension: usize) -> TableSpec {
    TableSpec {
        name,
        rows: 0,
        dimension,
        initializer: Initializer::of_dimension(dimension),
        trainable: true,
        shared: false,
    }
}

/// A column made of a categorical one.
fn over(column: FeatureColumn, function: &str, make: impl FnOnce(Categorical) -> Kind) -> FeatureColumn {
    match column.into_parts() {
        (Kind::Categorical(column), error) => FeatureColumn::new(make(column)).refuse(error),
        (kind, error) => {
            FeatureColumn::new(kind).refuse(error).refuse_with(format!("{function} needs a categorical column"))
        }
    }
}

fn sequence(column: FeatureColumn) -> FeatureColumn {
    over(column, "a sequence", |column| Kind::Categorical(Categorical::Sequence(Box::new(column))))
}

/// [`numeric_column`] with a time axis; its default pads shorter sequences.
pub fn sequence_numeric_column(key: impl Into<Arc<str>>) -> FeatureColumn {
    FeatureColumn::new(Kind::SequenceNumeric(Numeric { default: Some(vec![0.0]), ..numeric(key.into()) }))
}

/// [`categorical_column_with_identity`] with a time axis.
pub fn sequence_categorical_column_with_identity(key: impl Into<Arc<str>>, num_buckets: usize) -> FeatureColumn {
    sequence(categorical_column_with_identity(key, num_buckets))
}

/// [`categorical_column_with_hash_bucket`] with a time axis.
pub fn sequence_categorical_column_with_hash_bucket(
    key: impl Into<Arc<str>>,
    hash_bucket_size: usize,
) -> FeatureColumn {
    sequence(categorical_column_with_hash_bucket(key, hash_bucket_size))
}

/// [`categorical_column_with_vocabulary_list`] with a time axis.
pub fn sequence_categorical_column_with_vocabulary_list<T: Into<VocabularyToken>>(
    key: impl Into<Arc<str>>,
    vocabulary_list: impl IntoIterator<Item = T>,
) -> FeatureColumn {
    sequence(categorical_column_with_vocabulary_list(key, vocabulary_list))
}

/// [`categorical_column_with_vocabulary_file`] with a time axis.
pub fn sequence_categorical_column_with_vocabulary_file(
    key: impl Into<Arc<str>>,
    vocabulary_file: impl Into<PathBuf>,
) -> FeatureColumn {
    sequence(categorical_column_with_vocabulary_file(key, vocabulary_file))
}
