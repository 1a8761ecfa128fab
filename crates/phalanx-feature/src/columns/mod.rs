//! The feature columns of `tf.feature_column`, in one type.

mod check;
pub(crate) mod function;
pub(crate) mod kind;
mod known;
mod make;
mod parse;
mod settings;
mod table;
pub(crate) mod time;
pub(crate) mod tokens;

pub use known::{KnownValues, UnknownCount};
pub(crate) use make::DEFAULT_HASH_KEY;
pub use make::{
    CrossKey, NumericSource, UNBOUNDED, bucketized_column, categorical_column_with_hash_bucket,
    categorical_column_with_identity, categorical_column_with_vocabulary_file, categorical_column_with_vocabulary_list,
    crossed_column, embedding_column, indicator_column, numeric_column, quantile_column,
    sequence_categorical_column_with_hash_bucket, sequence_categorical_column_with_identity,
    sequence_categorical_column_with_vocabulary_file, sequence_categorical_column_with_vocabulary_list,
    sequence_numeric_column, shared_embeddings, shared_embeddings_named, timestamp_column, weighted_categorical_column,
};
pub use parse::make_parse_example_spec;
pub use settings::DefaultValue;
pub use table::{Combiner, EmbeddingInitializer, EmbeddingTable};
pub use time::{TimePart, TimeUnit};
pub use tokens::VocabularyToken;

use kind::ColumnKind;
use phalanx_base::{Code, Error, Result};

/// A feature column: the inputs it reads and the features it computes.
///
/// All kinds of columns have this type, so that they fit into one list. A wrong setting is reported when the column is
/// used, so that lists need no `?` on every line.
///
/// ```
/// use phalanx_feature::*;
/// let columns = [
///     numeric_column("age"),
///     bucketized_column("hours_per_week", [20.0, 40.0, 60.0]),
///     embedding_column(categorical_column_with_hash_bucket("occupation", 1_000), 8),
/// ];
/// let names: Vec<String> = columns.iter().map(FeatureColumn::name).collect();
/// assert_eq!(names, ["age", "hours_per_week_bucketized", "occupation_embedding"]);
/// ```
#[derive(Clone)]
pub struct FeatureColumn {
    pub(crate) kind: ColumnKind,
    error: Option<Error>,
}

impl FeatureColumn {
    fn new(kind: ColumnKind) -> Self {
        Self { kind, error: None }
    }

    fn into_parts(self) -> (ColumnKind, Option<Error>) {
        (self.kind, self.error)
    }

    /// Records an error, unless there is one already.
    fn refuse(mut self, error: Option<Error>) -> Self {
        self.error = self.error.or(error);
        self
    }

    fn refuse_with(self, why: impl std::fmt::Display) -> Self {
        let error = wrong(&self.kind, why);
        self.refuse(Some(error))
    }

    /// Returns TensorFlow's name of the column: `age_bucketized`, `education_X_occupation`, `occupation_embedding`.
    #[must_use]
    pub fn name(&self) -> String {
        self.kind.name()
    }

    /// Returns the name as used in variable names: TensorFlow replaces characters that are not allowed there by `_`.
    #[must_use]
    pub fn scope_name(&self) -> String {
        scope_name(&self.name())
    }

    /// Returns whether the column yields ids.
    #[must_use]
    pub fn is_categorical(&self) -> bool {
        matches!(self.kind, ColumnKind::Categorical(_))
    }

    /// Returns the categorical column of an embedding or an indicator, `None` for other columns.
    ///
    /// ```
    /// use phalanx_feature::{categorical_column_with_identity, embedding_column, numeric_column};
    /// let ad = embedding_column(categorical_column_with_identity("ad", 1_000), 8);
    /// assert_eq!(ad.categorical_column().map(|column| column.name()).as_deref(), Some("ad"));
    /// assert!(numeric_column("price").categorical_column().is_none());
    /// ```
    #[must_use]
    pub fn categorical_column(&self) -> Option<Self> {
        let column = match &self.kind {
            ColumnKind::Embedding(embedding) => embedding.column.clone(),
            ColumnKind::Indicator(column) => column.clone(),
            ColumnKind::Numeric(_) | ColumnKind::SequenceNumeric(_) | ColumnKind::Categorical(_) => return None,
        };
        Some(Self { kind: ColumnKind::Categorical(column), error: self.error.clone() })
    }

    /// Returns the number of ids, `None` for columns that are not categorical.
    ///
    /// # Errors
    /// If the settings are not valid, or a vocabulary file cannot be read.
    pub fn num_buckets(&self) -> Result<Option<usize>> {
        match self.checked()? {
            ColumnKind::Categorical(column) => column.num_buckets().map(Some),
            _ => Ok(None),
        }
    }

    /// Returns the table of an embedding column, `None` for other columns.
    ///
    /// # Errors
    /// As [`FeatureColumn::num_buckets`].
    pub fn table(&self) -> Result<Option<EmbeddingTable>> {
        match self.checked()? {
            ColumnKind::Embedding(embedding) => {
                let rows = embedding.column.num_buckets()?;
                Ok(Some(EmbeddingTable { rows, ..embedding.table.clone() }))
            }
            _ => Ok(None),
        }
    }

    /// Returns the column, if it is valid.
    pub(crate) fn checked(&self) -> Result<&ColumnKind> {
        match &self.error {
            Some(error) => Err(error.clone()),
            None => self.kind.check().map(|()| &self.kind),
        }
    }
}

impl std::fmt::Debug for FeatureColumn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({:?})", self.kind.function(), self.name())
    }
}

fn scope_name(name: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    name.chars().map(|c| if allowed(c) { c } else { '_' }).collect()
}

fn wrong(kind: &ColumnKind, why: impl std::fmt::Display) -> Error {
    Error::new(Code::BadSetting, format!("feature column {:?} is not valid", kind.name()))
        .at(kind.function())
        .because(why)
}
