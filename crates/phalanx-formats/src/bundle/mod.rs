//! Checkpoints as TensorFlow writes them: the tensor bundle, and the `checkpoint` file that names the newest.
//!
//! A bundle is `PREFIX.index`, a sorted table of what there is, beside data files of raw numbers, one per shard
//! ([`data_file`]). Each server writes its own data file with a [`BundleWriter`]; [`BundleIndex::merge`] makes one
//! index of theirs. A [`BundleReader`] gives tensors back, whole or in part, however they were cut when written.
//!
//! ```
//! use phalanx_base::Shape;
//! use phalanx_formats::bundle::{BundleIndex, BundleReader, BundleWriter, Dtype, TensorSlice};
//! # fn main() -> phalanx_base::Result<()> {
//! // Two servers, each with one row of a variable.
//! let shape = Shape::new([2, 3])?;
//! let (mut files, mut parts) = (Vec::new(), Vec::new());
//! for row in 0..2_u8 {
//!     let mut writer = BundleWriter::new(Vec::new());
//!     let mut tensor = writer.begin_slice("w", Dtype::F32, &shape, &TensorSlice::rows(row.into(), 1, 2))?;
//!     tensor.write_f32s(&[f32::from(row); 3])?;
//!     tensor.finish()?;
//!     let (file, index) = writer.finish()?;
//!     files.push(file);
//!     parts.push(index);
//! }
//! let index = BundleIndex::merge(parts)?.to_bytes()?;
//!
//! let reader = BundleReader::open(&index, files)?;
//! assert_eq!(reader.read("w")?.f32s()?, [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
//! assert_eq!(reader.read_rows("w", 1, 1)?.f32s()?, [1.0; 3]);
//! # Ok(())
//! # }
//! ```
//!
//! Invariants: every key, shape, type, slice and range of the index is checked, the ranges against the data files'
//! sizes, before a tensor is read; no checksum is taken for a promise that the content makes sense.

mod block;
mod checks;
mod cursor;
mod dtype;
mod entry;
#[cfg(test)]
mod hostile_tests;
mod index;
mod ordered;
mod reader;
mod region;
mod slice;
mod source;
mod state;
mod strings;
mod table_reader;
mod table_writer;
mod tensor;
mod text;
mod writer;

pub use dtype::Dtype;
pub use entry::{Span, TensorInfo, TensorLocation};
pub use index::BundleIndex;
pub use ordered::{parse_slice_key, slice_key};
use phalanx_base::{Code, Error};
pub use reader::BundleReader;
pub use slice::{Extent, TensorSlice};
pub use source::DataSource;
pub use state::CheckpointState;
pub use strings::TensorStrings;
pub use table_reader::TableReader;
pub use table_writer::TableWriter;
pub use tensor::{Tensor, TensorData};
pub use writer::{BundleWriter, TensorWriter};

/// The index's messages.
#[allow(missing_docs, unreachable_pub, clippy::all)]
mod proto {
    include!(concat!(env!("OUT_DIR"), "/phalanx.bundle.rs"));
}

/// The name of the index of the checkpoint `prefix`.
///
/// ```
/// assert_eq!(phalanx_formats::bundle::index_file("model.ckpt-7"), "model.ckpt-7.index");
/// ```
#[must_use]
pub fn index_file(prefix: &str) -> String {
    format!("{prefix}.index")
}

/// The name of the data file of `shard` of the checkpoint `prefix`, which has `shards` of them.
///
/// ```
/// assert_eq!(phalanx_formats::bundle::data_file("model.ckpt-7", 1, 4), "model.ckpt-7.data-00001-of-00004");
/// ```
#[must_use]
pub fn data_file(prefix: &str, shard: u32, shards: u32) -> String {
    format!("{prefix}.data-{shard:05}-of-{shards:05}")
}

/// An error about bytes that are not a checkpoint.
fn malformed(why: impl std::fmt::Display) -> Error {
    Error::new(Code::DataFormat, "the checkpoint is damaged")
        .because(why)
        .help("its writing was cut short or something changed it; restore another checkpoint")
}
