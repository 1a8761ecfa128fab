//! Input: a [`Dataset`] of named columns, read from the files people have, shared among workers, resumed exactly.
//!
//! Read [`Batch`] first (rows of named columns), then [`Dataset`] (the pipeline), [`Source`] and [`Reader`] (what a file
//! format offers), [`Sharding`] (who reads what) and [`Position`] (where an iterator stands).
//!
//! Three rules hold everywhere: between stages rows travel in chunks of columns, never boxed one by one; a stage holds
//! no more than the buffer it was asked for, and a chunk; an iterator's threads have ended when it is dropped.

mod batch;
mod clicks;
mod column;
mod csv;
mod dataset;
mod files;
mod idx;
mod numpy;
#[cfg(feature = "parquet")]
mod parquet;
mod position;
mod reader;
mod records;
mod shard;
mod strided;
mod strings;
mod text;
mod values;

pub use batch::{Batch, Schema};
pub use clicks::{Best, Clicks, synthetic_clicks};
pub use column::Column;
pub use csv::{Csv, CsvDefault, csv};
pub use dataset::{AUTOTUNE, Dataset, DatasetIter, Input, Interleave, Options, Padding, Parallel, Share};
pub use files::{BadRows, Files};
pub use idx::{Idx, idx, mnist_test, mnist_train};
pub use numpy::{Npy, Npz, npy, npz};
#[cfg(feature = "parquet")]
pub use parquet::{Parquet, parquet};
pub use phalanx_formats::example::{FeatureSpec, Kind as FeatureKind, Values as FeatureValues};
pub use position::Position;
pub use reader::{PartPosition, Reader, Source};
pub use records::{Examples, Records, tfrecord};
pub use shard::{
    AutoShardPolicy, Distributed, DistributedIter, InputContext, Sharding, datasets_from_function, distribute_dataset,
    replica_batch_sizes,
};
pub use strings::{Strings, StringsView};
pub use text::{TextLines, text_lines};
pub use values::{DType, Values, ValuesView};
