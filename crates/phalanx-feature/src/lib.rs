//! Features: raw columns become what a model is fed with.
//!
//! The layers are those of Keras 2.15, the feature columns those of `tf.feature_column`; hashes, ids and orders are
//! TensorFlow's to the bit, because they are part of trained models.

mod adapt;
mod columns;
mod encode;
mod layer;
mod layout;
mod lookup;
mod numbers;
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
pub use layer::PreprocessingLayer;
pub use lookup::{IntegerLookup, Lookup, StringLookup};
pub use transform::{Features, PlannedColumn, Slot, SparseIds, Transform};
