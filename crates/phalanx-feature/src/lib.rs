//! Features: raw columns become what a model is fed with.
//!
//! | what | where |
//! | --- | --- |
//! | feature columns, as `tf.feature_column` has them | [`numeric_column`], [`embedding_column`], … all a [`FeatureColumn`] |
//! | what a list of columns makes of a batch | [`Transform`], which yields [`Features`] |
//! | columns as a graph of TensorFlow's ops, for exported models | [`GraphInputs`] |
//! | how examples are parsed for columns | [`make_parse_example_spec`] |
//! | Keras' preprocessing layers | [`StringLookup`], [`IntegerLookup`], [`Normalization`], [`Discretization`], [`Hashing`], [`CategoryEncoding`], [`HashedCrossing`] |
//!
//! Hashes, ids, names and orders are those of TensorFlow 2.15 to the bit, because they are part of trained models. Work
//! is done column by column: nothing is allocated, boxed or looked up by name for a single value. The values of
//! embedding tables live elsewhere; a column says which table it wants and yields ids.

mod adapt;
mod columns;
mod encode;
mod graph;
mod layer;
mod layers;
mod layout;
mod lookup;
mod numbers;
mod text;
mod transform;

pub use columns::{
    Combiner, CrossKey, DefaultValue, FeatureColumn, Initializer, NumericSource, TableSpec, VocabularyToken,
    bucketized_column, categorical_column_with_hash_bucket, categorical_column_with_identity,
    categorical_column_with_vocabulary_file, categorical_column_with_vocabulary_list, crossed_column, embedding_column,
    indicator_column, make_parse_example_spec, numeric_column, sequence_categorical_column_with_hash_bucket,
    sequence_categorical_column_with_identity, sequence_categorical_column_with_vocabulary_file,
    sequence_categorical_column_with_vocabulary_list, sequence_numeric_column, shared_embeddings,
    shared_embeddings_named, weighted_categorical_column,
};
pub use encode::OutputMode;
pub use graph::{GraphIds, GraphInputs};
pub use layer::PreprocessingLayer;
pub use layers::{CategoryCrossing, CategoryEncoding, Discretization, HashedCrossing, Hashing, Normalization, Salt};
pub use lookup::{IntegerLookup, Lookup, StringLookup};
pub use transform::{Features, PlannedColumn, Slot, SparseIds, Transform};
