//! Snappy's raw format, decompression only: TensorFlow never compresses an index, but its reader accepts it.

use super::cursor::Cursor;

/// A compressed block does not become larger than this.
const MAX_OUTPUT: usize = 64 << 20;
/// Three bytes stand for 64 at most; what promises more is not snappy.
const MAX_RATIO: usize = 22;

/// The original of `bytes`, or `None` where they are not snappy's or want too much memory.
pub(super) fn decompress(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut input = Cursor(bytes);
    let length = input.size()?;
    if length > MAX_OUTPUT || length > bytes.len().saturating_mul(MAX_RATIO) {
        return None;
    }
    let mut output = Vec::with_capacity(length);
    while let Some(tag) = input.byte() {
        let upper = usize::from(tag >> 2);
        match tag & 3 {
            0 => {
                let count = if upper < 60 { upper } else { little_endian(input.take(upper - 59)?) };
                output.extend_from_slice(input.take(count.checked_add(1)?)?);
            }
            1 => copy(&mut output, 4 + (upper & 7), usize::from(tag >> 5) << 8 | usize::from(input.byte()?))?,
            2 => copy(&mut output, 1 + upper, little_endian(input.take(2)?))?,
            _ => copy(&mut output, 1 + upper, little_endian(input.take(4)?))?,
        }
        if output.len() > length {
            return None;
        }
    }
    (output.len() == length).then_some(output)
}

/// Up to four bytes as a number.
fn little_endian(bytes: &[u8]) -> usize {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte))
}

/// Appends `count` bytes from `distance` bytes back; they may overlap with what is being appended.
fn copy(output: &mut Vec<u8>, count: usize, distance: usize) -> Option<()> {
    let start = output.len().checked_sub(distance).filter(|_| distance > 0)?;
    for at in start..start + count {
        output.push(output[at]);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn literals_and_copies_of_every_kind() {
        // "abcd", then by copy-1: 4 bytes from 4 back; copy-2: 3 from 1 back; copy-4: 2 from 8 back.
        let bytes = [13, 3 << 2, b'a', b'b', b'c', b'd', 1, 4, 2 << 2 | 2, 1, 0, 4 | 3, 8, 0, 0, 0];
        assert_eq!(decompress(&bytes).unwrap(), b"abcdabcddddda");
        let mut long = vec![200, 1, 60 << 2, 199];
        long.extend([7; 200]);
        assert_eq!(decompress(&long).unwrap(), [7; 200]);
    }

    #[test]
    fn bombs_and_copies_from_before_the_start_are_refused() {
        assert_eq!(decompress(&[0xff, 0xff, 0xff, 0xff, 0x0f]), None);
        assert_eq!(decompress(&[4, 1, 1]), None);
        assert_eq!(decompress(&[4, 0, b'a', 1, 0]), None);
        assert_eq!(decompress(&[]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_handled(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Some(output) = decompress(&bytes) {
                prop_assert!(output.len() <= bytes.len() * MAX_RATIO);
            }
        }
    }
}
