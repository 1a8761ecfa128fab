//! Input pipelines: a [`Dataset`] of named columns is read from files, divided among workers and resumed exactly.
//!
//! Read [`Batch`] first (rows of named columns), then [`Dataset`] (the pipeline), [`Source`] and [`Reader`] (the interface
//! of a file format), [`Sharding`] (which worker reads what) and [`Position`] (the resume state of an iterator).
//!
//! Three rules hold everywhere: stages pass rows in chunks of columns, never one by one; a stage holds at most the buffer
//! it was configured with, and one chunk; when an iterator is dropped, its threads have ended.

#[cfg(feature = "parquet")]
mod arrow;
mod batch;
mod clicks;
mod column;
mod csv;
mod dataset;
mod files;
mod finite;
mod hash_split;
mod idx;
mod locate;
mod missing;
mod numpy;
#[cfg(feature = "parquet")]
mod parquet;
mod position;
mod public_data;
mod reader;
mod records;
mod row_filter;
mod shard;
mod statistics;
mod strided;
#[cfg(test)]
mod testing;
mod text;
mod values;

#[cfg(feature = "parquet")]
pub use arrow::{ArrowBatches, arrow_stream};
pub use batch::{Batch, Schema};
pub use clicks::{AttainableMetrics, Clicks, synthetic_clicks};
pub use column::Column;
pub use csv::{Csv, csv};
pub use dataset::{AUTOTUNE, Dataset, DatasetIter, Interleave, Options, Padding, Parallel, ShardSpec, SourceExt};
pub use files::{BadRows, Files};
pub use finite::NonFiniteValues;
pub use hash_split::{HashSplit, SplitPart};
pub use idx::{Idx, idx, mnist_test, mnist_train};
pub use locate::find_row;
pub use missing::FillValue;
pub use numpy::{Npy, Npz, npy, npz};
#[cfg(feature = "parquet")]
pub use parquet::{Parquet, ParquetWriter, parquet};
pub use phalanx_formats::example::{FeatureKind, FeatureLayout, FeatureSpec, FeatureValues};
pub use phalanx_formats::{Strings, StringsView};
pub use position::Position;
pub use public_data::{census, mnist};
pub use reader::{PartPosition, Reader, Source};
pub use records::{Examples, Records, tfrecord};
pub use row_filter::RowFilter;
pub use shard::{
    AutoShardPolicy, BlockClaim, BlockClaims, InputContext, ReplicaDataset, ReplicaIterator, ShardedBy, Sharding,
    datasets_from_function, distribute_dataset, replica_batch_sizes,
};
pub use statistics::{ColumnStatistics, QuantileSketch};
pub use text::{TextLines, text_lines};
pub use values::{DType, Values, ValuesView};
