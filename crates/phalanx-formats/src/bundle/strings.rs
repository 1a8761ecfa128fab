//! String tensors: lengths, a checksum of the lengths, then the strings.

use super::cursor::Cursor;
use super::malformed;
use crate::checksum::mask;
use crate::wire::put_varint;
use phalanx_base::{Error, Result};

/// The strings of a tensor, row-major, as they are stored. Kept so, because millions of empty strings are a few
/// megabytes in a file and would be many in memory.
///
/// ```
/// use phalanx_formats::bundle::TensorStrings;
/// let strings = TensorStrings::new(["a", "", "long"]);
/// assert_eq!(strings.len(), 3);
/// assert_eq!(strings.iter().collect::<Vec<_>>(), [b"a".as_slice(), b"", b"long"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorStrings {
    encoded: Vec<u8>,
    count: usize,
    /// Where the lengths end, and where the strings begin.
    lengths_end: usize,
}

impl TensorStrings {
    /// Encodes strings, which need not be text.
    pub fn new<S: AsRef<[u8]>>(strings: impl IntoIterator<Item = S>) -> Self {
        let (mut encoded, mut body, mut count, mut crc) = (Vec::new(), Vec::new(), 0, 0);
        for string in strings {
            let string = string.as_ref();
            put_varint(string.len() as u64, &mut encoded);
            crc = length_crc(crc, string.len() as u64);
            body.extend_from_slice(string);
            count += 1;
        }
        let lengths_end = encoded.len();
        encoded.extend(mask(crc).to_le_bytes());
        encoded.extend(body);
        Self { encoded, count, lengths_end }
    }

    /// Reads `count` strings; gives their crc32c, unmasked, too. Errors say what is wrong with the bytes.
    pub(super) fn parse(encoded: Vec<u8>, count: usize) -> Result<(Self, u32)> {
        let cut = || -> Error { malformed("a string tensor is cut off") };
        let mut rest = Cursor(&encoded);
        let (mut total, mut crc) = (0_u64, 0);
        for _ in 0..count {
            let length = rest.varint().ok_or_else(cut)?;
            total = total.checked_add(length).ok_or_else(cut)?;
            crc = length_crc(crc, length);
        }
        let lengths_end = encoded.len() - rest.0.len();
        let stored = rest.u32().ok_or_else(cut)?;
        if stored != mask(crc) {
            return Err(malformed("the checksum of a string tensor's lengths is wrong"));
        }
        if total != rest.0.len() as u64 {
            return Err(malformed(format!("strings of {total} bytes are stored as {}", rest.0.len())));
        }
        let crc = crc32c::crc32c_append(crc, &stored.to_le_bytes());
        let crc = crc32c::crc32c_append(crc, rest.0);
        Ok((Self { encoded, count, lengths_end }, crc))
    }

    /// The strings' crc32c as the index has it, but unmasked.
    pub(super) fn crc(&self) -> u32 {
        let lengths = self.iter().fold(0, |crc, string| length_crc(crc, string.len() as u64));
        crc32c::crc32c_append(lengths, &self.encoded[self.lengths_end..])
    }

    /// The bytes of the data file.
    pub(super) fn encoded(&self) -> &[u8] {
        &self.encoded
    }

    /// How many strings there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The strings, row-major.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut lengths = Cursor(&self.encoded[..self.lengths_end]);
        let mut body = Cursor(&self.encoded[self.lengths_end + 4..]);
        (0..self.count).map_while(move |_| lengths.size().and_then(|length| body.take(length)))
    }
}

/// Lengths are summed as 32-bit numbers where they fit, whatever their varints look like.
fn length_crc(crc: u32, length: u64) -> u32 {
    match u32::try_from(length) {
        Ok(short) => crc32c::crc32c_append(crc, &short.to_le_bytes()),
        Err(_) => crc32c::crc32c_append(crc, &length.to_le_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn strings_come_back(list in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..20)) {
            let strings = TensorStrings::new(&list);
            prop_assert_eq!(strings.iter().collect::<Vec<_>>(), list.clone());
            let (parsed, crc) = TensorStrings::parse(strings.encoded().to_vec(), list.len()).unwrap();
            prop_assert_eq!(crc, strings.crc());
            prop_assert_eq!(parsed, strings);
        }

        #[test]
        fn any_bytes_are_handled(bytes in proptest::collection::vec(any::<u8>(), 0..100), count in 0..200_usize) {
            if let Ok((strings, _)) = TensorStrings::parse(bytes, count) {
                prop_assert_eq!(strings.iter().count(), count);
            }
        }
    }

    #[test]
    fn endless_counts_take_no_memory() {
        assert!(TensorStrings::parse(vec![0; 100], usize::MAX).is_err());
        assert!(TensorStrings::parse(vec![0xff; 100], 3).is_err());
    }
}
