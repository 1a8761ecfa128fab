//! How a whole record file is compressed, and how to find out.

use crate::checksum;

/// The compression of a whole record file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Records as they are.
    #[default]
    None,
    /// One gzip stream, or several one after another.
    Gzip,
    /// One zlib stream.
    Zlib,
}

impl Compression {
    /// How many bytes [`Compression::detect`] wants to see.
    pub const DETECT_BYTES: usize = 12;

    /// Tells the compression by the first bytes of a file.
    ///
    /// A plain file is known by the checksum of its first length, so it is never taken for a compressed one. What looks
    /// like nothing known counts as plain, and its reader then says what is wrong.
    ///
    /// ```
    /// use phalanx_formats::record::Compression;
    /// assert_eq!(Compression::detect(&[0x1f, 0x8b, 8, 0]), Compression::Gzip);
    /// assert_eq!(Compression::detect(&[0x78, 0x9c, 1]), Compression::Zlib);
    /// assert_eq!(Compression::detect(b""), Compression::None);
    /// ```
    #[must_use]
    pub fn detect(head: &[u8]) -> Self {
        if let Some((length, [a, b, c, d, ..])) = head.split_first_chunk::<8>()
            && checksum::masked(length) == u32::from_le_bytes([*a, *b, *c, *d])
        {
            return Self::None;
        }
        match *head {
            [0x1f, 0x8b, 8, ..] => Self::Gzip,
            // Deflate with a window of at most 32 KiB, and a header that is a multiple of 31.
            [method, flags, ..]
                if method & 0x0f == 8
                    && method >> 4 <= 7
                    && u16::from_be_bytes([method, flags]) % 31 == 0
                    && flags & 0x20 == 0 =>
            {
                Self::Zlib
            }
            _ => Self::None,
        }
    }
}

impl std::fmt::Display for Compression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Zlib => "zlib",
        })
    }
}
