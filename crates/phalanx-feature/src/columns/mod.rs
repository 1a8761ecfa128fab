//! Feature columns: what `tf.feature_column` describes, in one type.

mod check;
pub(crate) mod kind;
mod make;
mod parse;
mod settings;
mod table;
pub(crate) mod tokens;

pub(crate) use make::DEFAULT_HASH_KEY;
pub use make::{
    CrossKey, NumericSource, bucketized_column, categorical_column_with_hash_bucket, categorical_column_with_identity,
    categorical_column_with_vocabulary_file, categorical_column_with_vocabulary_list, crossed_column, embedding_column,
    indicator_column, numeric_column, sequence_categorical_column_with_hash_bucket,
    sequence_categorical_column_with_identity, sequence_categorical_column_with_vocabulary_file,
    sequence_categorical_column_with_vocabulary_list, sequence_numeric_column, shared_embeddings,
    shared_embeddings_named, weighted_categorical_column,
};
pub use parse::make_parse_example_spec;
pub use settings::DefaultValue;
pub use table::{Combiner, Initializer, TableSpec};
pub use tokens::VocabularyToken;

use kind::Kind;
use phalanx_base::{Code, Error, Result};

/// A feature column: which inputs it reads and what it makes of them.
///
/// All kinds are of this one type, so that they can stand in one list. A wrong setting is remembered and reported
/// where the column is used, so that lists can be written without a `?` on every line.
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
    kind: Kind,
    error: Option<Error>,
}

impl FeatureColumn {
    fn new(kind: Kind) -> Self {
        Self { kind, error: None }
    }

    fn into_parts(self) -> (Kind, Option<Error>) {
        (self.kind, self.error)
    }

    /// Remembers what is wrong; the first thing that went wrong is what is said.
    fn refuse(mut self, error: Option<Error>) -> Self {
        self.error = self.error.or(error);
        self
    }

    fn refuse_with(self, why: impl std::fmt::Display) -> Self {
        let error = wrong(&self.kind, why);
        self.refuse(Some(error))
    }

    /// TensorFlow's name of the column: `age_bucketized`, `education_X_occupation`, `occupation_embedding`.
    #[must_use]
    pub fn name(&self) -> String {
        self.kind.name()
    }

    /// The name as it stands in the names of variables: TensorFlow puts `_` for whatever it does not allow there.
    #[must_use]
    pub fn scope_name(&self) -> String {
        scope_name(&self.name())
    }

    /// Whether the column yields ids.
    #[must_use]
    pub fn is_categorical(&self) -> bool {
        matches!(self.kind, Kind::Categorical(_))
    }

    /// The categorical column behind an embedding or an indicator; `None` for other columns.
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
            Kind::Embedding(embedding) => embedding.column.clone(),
            Kind::Indicator(column) => column.clone(),
            Kind::Numeric(_) | Kind::SequenceNumeric(_) | Kind::Categorical(_) => return None,
        };
        Some(Self { kind: Kind::Categorical(column), error: self.error.clone() })
    }

    /// How many different ids there are; `None` for columns that are not categorical.
    ///
    /// # Errors
    /// When the settings do not fit, or a vocabulary file cannot be read.
    pub fn num_buckets(&self) -> Result<Option<usize>> {
        match self.checked()? {
            Kind::Categorical(column) => column.num_buckets().map(Some),
            _ => Ok(None),
        }
    }

    /// The table that an embedding column looks up in; `None` for other columns.
    ///
    /// # Errors
    /// As [`FeatureColumn::num_buckets`].
    pub fn table(&self) -> Result<Option<TableSpec>> {
        match self.checked()? {
            Kind::Embedding(embedding) => {
                let rows = embedding.column.num_buckets()?;
                Ok(Some(TableSpec { rows, ..embedding.table.clone() }))
            }
            _ => Ok(None),
        }
    }

    /// The column, if nothing is wrong with it.
    pub(crate) fn checked(&self) -> Result<&Kind> {
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

fn wrong(kind: &Kind, why: impl std::fmt::Display) -> Error {
    Error::new(Code::BadSetting, format!("feature column {:?} is not valid", kind.name()))
        .at(kind.function())
        .because(why)
}
