//! The options of a record reader.

use super::Compression;

/// The compression to expect and the limits to keep.
///
/// Memory for a record grows with the bytes that were really read, whatever its length claims; the limits say when to
/// stop believing a file.
///
/// ```
/// use phalanx_formats::record::{Compression, ReadOptions, RecordReader};
/// let options = ReadOptions { compression: Some(Compression::Zlib), ..ReadOptions::default() };
/// assert!(RecordReader::with_options(&b"no zlib"[..], &options).and_then(|mut r| r.next_record().map(drop)).is_err());
/// ```
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// The file's compression; `None` looks at its first bytes.
    pub compression: Option<Compression>,
    /// The maximum length of a record. Default: 1 GiB.
    pub max_record_bytes: u64,
    /// The maximum compression ratio after the first [`ReadOptions::FREE_BYTES`]. Default: 256. Deflate reaches 1032 on
    /// zeros; examples rarely exceed 30.
    pub max_ratio: u64,
}

impl ReadOptions {
    /// Decompressed bytes that are always allowed: 64 MiB.
    pub const FREE_BYTES: u64 = 64 << 20;
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { compression: None, max_record_bytes: 1 << 30, max_ratio: 256 }
    }
}
