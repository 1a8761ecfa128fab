//! TFRecord files: records of bytes, each with its length and two checksums, the whole plain, gzip or zlib.
//!
//! A record is a little-endian `u64` length, the masked crc32c of those eight bytes, the payload, and the masked crc32c
//! of the payload. There is no header, so a file may be empty, and files may be joined by appending.
//!
//! ```
//! use phalanx_formats::record::{RecordReader, RecordWriter};
//! let mut writer = RecordWriter::new(Vec::new());
//! writer.write_record(b"one")?;
//! writer.write_record(b"two")?;
//! let file = writer.finish()?;
//!
//! let mut reader = RecordReader::new(file.as_slice());
//! while let Some(record) = reader.next_record()? {
//!     assert_eq!(record.len(), 3);
//! }
//! assert_eq!(reader.records(), 2);
//! # Ok::<(), phalanx_base::Error>(())
//! ```

mod compression;
mod input;
mod options;
mod reader;
mod writer;

#[cfg(test)]
mod tests;

pub use compression::Compression;
pub use options::ReadOptions;
pub use reader::RecordReader;
pub use writer::RecordWriter;

/// The length and its checksum.
const HEADER_BYTES: usize = 12;

/// The payload's checksum.
const FOOTER_BYTES: usize = 4;
