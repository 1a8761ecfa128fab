//! What a record reader accepts.

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
    /// The longest record that is read; 1 GiB unless said otherwise.
    pub max_record_bytes: u64,
    /// How many bytes one compressed byte may become, after the first [`ReadOptions::FREE_BYTES`]; 256 unless said
    /// otherwise. Deflate reaches 1032 on nothing but zeros; examples rarely pass 30.
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
