//! Feature columns and preprocessing layers: raw columns become the inputs of a model.
//!
//! | purpose | items |
//! | --- | --- |
//! | feature columns of `tf.feature_column` | [`numeric_column`], [`embedding_column`], … which all return a [`FeatureColumn`] |
//! | what columns learn from data before training | [`FeatureStatistics`] |
//! | features of a batch | [`Transform`], which yields [`Features`] |
//! | columns as a TensorFlow graph, for exported models | [`GraphInputs`] |
//! | parsing of examples | [`make_parse_example_spec`] |
//! | Keras' preprocessing layers | [`StringLookup`], [`IntegerLookup`], [`Normalization`], [`Discretization`], [`Hashing`], [`CategoryEncoding`], [`HashedCrossing`] |
//!
//! Hashes, ids, names and orders equal those of TensorFlow 2.15 to the bit, because they are part of trained models. Work
//! proceeds column by column: nothing is allocated, boxed or looked up by name per value. A column specifies its embedding
//! table and yields ids; the values of the table live elsewhere.

/// Generates builder methods that set a field.
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $value:ty => $($field:ident).+;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self, $name: $value) -> Self {
            self.$($field).+ = $name.into();
            self
        }
    )*};
}

mod adapt;
mod columns;
mod encode;
mod graph;
mod layer;
mod layers;
mod layout;
mod lookup;
mod numbers;
mod statistics;
mod text;
mod transform;

pub use columns::{
    Combiner, CrossKey, DefaultValue, EmbeddingInitializer, EmbeddingTable, FeatureColumn, KnownValues, NumericSource,
    TimePart, TimeUnit, UNBOUNDED, UnknownCount, VocabularyToken, bucketized_column,
    categorical_column_with_hash_bucket, categorical_column_with_identity, categorical_column_with_vocabulary_file,
    categorical_column_with_vocabulary_list, crossed_column, embedding_column, indicator_column,
    make_parse_example_spec, numeric_column, quantile_column, sequence_categorical_column_with_hash_bucket,
    sequence_categorical_column_with_identity, sequence_categorical_column_with_vocabulary_file,
    sequence_categorical_column_with_vocabulary_list, sequence_numeric_column, shared_embeddings,
    shared_embeddings_named, timestamp_column, weighted_categorical_column,
};
pub use encode::OutputMode;
pub use graph::{GraphIds, GraphInputs, GraphTensor};
pub use layer::PreprocessingLayer;
pub use layers::{CategoryCrossing, CategoryEncoding, Discretization, HashedCrossing, Hashing, Normalization, Salt};
pub use lookup::{IntegerLookup, Lookup, StringLookup};
pub use statistics::{FeatureStatistic, FeatureStatistics};
pub use transform::{Features, PlannedColumn, Slot, SparseIds, Transform};
