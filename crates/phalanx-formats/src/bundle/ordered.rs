//! The keys of slices: encoded so that their bytes sort as the slices do.

use super::cursor::Cursor;
use super::{Extent, TensorSlice, malformed};
use phalanx_base::Result;

/// No slice has more dimensions than a [`phalanx_base::Shape`] may have.
const MAX_RANK: u64 = 8;

/// The index's key for a slice of the tensor `name`.
///
/// ```
/// use phalanx_formats::bundle::{TensorSlice, parse_slice_key, slice_key};
/// let slice: TensorSlice = "2,1:-".parse().unwrap();
/// let key = slice_key("n", &slice);
/// assert_eq!(key, [0, b'n', 0, 1, 1, 2, 0x82, 0x81, 0x80, 0x7f]);
/// assert_eq!(parse_slice_key(&key).unwrap(), ("n".to_owned(), slice));
/// ```
#[must_use]
pub fn slice_key(name: &str, slice: &TensorSlice) -> Vec<u8> {
    let mut key = vec![0];
    for byte in name.bytes() {
        match byte {
            0 => key.extend([0, 0xff]),
            0xff => key.extend([0xff, 0]),
            byte => key.push(byte),
        }
    }
    key.extend([0, 1]);
    put_unsigned(&mut key, slice.extents().len() as u64);
    for extent in slice.extents() {
        let (start, length) = match *extent {
            Extent::Full => (0, -1),
            Extent::Range { start, length } => (start.cast_signed(), length.cast_signed()),
        };
        put_signed(&mut key, start);
        put_signed(&mut key, length);
    }
    key
}

/// The name and the slice that a key stands for.
///
/// # Errors
/// When `key` is not the key of a slice.
pub fn parse_slice_key(key: &[u8]) -> Result<(String, TensorSlice)> {
    let wrong = || malformed(format!("\"{}\" is not a slice's key", key.escape_ascii()));
    let (name, slice) = parse(&mut Cursor(key)).ok_or_else(wrong)?;
    // There is one way only to write each number: everything else would be a second key for the same slice.
    if slice_key(&name, &slice) == key { Ok((name, slice)) } else { Err(wrong()) }
}

fn parse(key: &mut Cursor<'_>) -> Option<(String, TensorSlice)> {
    let mut name = Vec::new();
    key.byte().filter(|&byte| byte == 0)?;
    loop {
        match key.byte()? {
            0 => match key.byte()? {
                1 => break,
                0xff => name.push(0),
                _ => return None,
            },
            0xff => name.push(key.byte().filter(|&byte| byte == 0).map(|_| 0xff)?),
            byte => name.push(byte),
        }
    }
    let rank = take_unsigned(key).filter(|&rank| rank <= MAX_RANK)?;
    let mut extents = Vec::new();
    for _ in 0..rank {
        extents.push(match (take_signed(key)?, take_signed(key)?) {
            (0, -1) => Extent::Full,
            (start, length) => Extent::Range { start: start.try_into().ok()?, length: length.try_into().ok()? },
        });
    }
    Some((String::from_utf8(name).ok()?, TensorSlice::new(extents)))
}

/// A count of bytes, then as many, the most significant first.
fn put_unsigned(key: &mut Vec<u8>, number: u64) {
    let zeros = number.leading_zeros() as usize / 8;
    key.push(8 - zeros as u8);
    key.extend(&number.to_be_bytes()[zeros..]);
}

fn take_unsigned(key: &mut Cursor<'_>) -> Option<u64> {
    let count = key.byte().filter(|&count| count <= 8)?;
    Some(key.take(count.into())?.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

/// The bits that say how many bytes there are: as many ones as bytes, at the front.
fn header(count: usize) -> [u8; 2] {
    let ones = u16::MAX.checked_shl(16 - count as u32).unwrap_or(0);
    ones.to_be_bytes()
}

/// Two's complement in as few bytes as the header and the sign leave room for.
fn put_signed(key: &mut Vec<u8>, number: i64) {
    let magnitude = if number < 0 { !number } else { number };
    let bits = 64 - magnitude.leading_zeros() as usize;
    let count = bits / 7 + 1;
    let start = key.len();
    key.extend(&i128::from(number).to_be_bytes()[16 - count..]);
    for (byte, ones) in key[start..].iter_mut().zip(header(count)) {
        *byte ^= ones;
    }
}

fn take_signed(key: &mut Cursor<'_>) -> Option<i64> {
    let first = *key.0.first()?;
    let flip = if first < 0x80 { 0xff } else { 0 };
    let mut count = (first ^ flip).leading_ones() as usize;
    if count == 8 {
        count += ((key.0.get(1)? ^ flip).leading_ones() as usize).min(2);
    }
    let bytes = key.take(count)?;
    let ones = header(count).into_iter().chain([0; 8]);
    let sign = if flip == 0 { 0 } else { -1 };
    let number = bytes.iter().zip(ones).fold(sign, |number: i128, (byte, ones)| number << 8 | i128::from(byte ^ ones));
    number.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn signed(number: i64) -> Vec<u8> {
        let mut key = Vec::new();
        put_signed(&mut key, number);
        key
    }

    #[test]
    fn golden_numbers_of_tensorflow() {
        let golden: [(i64, &[u8]); 10] = [
            (0, &[0x80]),
            (1, &[0x81]),
            (63, &[0xbf]),
            (64, &[0xc0, 0x40]),
            (8191, &[0xdf, 0xff]),
            (8192, &[0xe0, 0x20, 0]),
            (1_048_576, &[0xf0, 0x10, 0, 0]),
            (134_217_728, &[0xf8, 0x08, 0, 0, 0]),
            (1 << 34, &[0xfc, 0x04, 0, 0, 0, 0]),
            (-1, &[0x7f]),
        ];
        for (number, bytes) in golden {
            assert_eq!(signed(number), bytes, "{number}");
        }
        assert_eq!(slice_key("n", &"0,1".parse().unwrap()), [0, 0x6e, 0, 1, 1, 1, 0x80, 0x81]);
    }

    proptest! {
        #[test]
        fn signed_numbers_come_back_and_sort(a: i64, b: i64, shift in 0..64_u32) {
            let (a, b) = (a >> shift, b >> (63 - shift));
            let key = signed(a);
            prop_assert_eq!(take_signed(&mut Cursor(&key)), Some(a));
            prop_assert_eq!(key.cmp(&signed(b)), a.cmp(&b));
        }

        #[test]
        fn keys_come_back(name in "[\\x00a-c\u{ff}/]{0,8}", ranges in proptest::collection::vec(
            proptest::option::of((0..i64::MAX as u64, 0..i64::MAX as u64)), 0..8))
        {
            let extent = |range| match range {
                None => Extent::Full,
                Some((start, length)) => Extent::Range { start, length },
            };
            let slice = TensorSlice::new(ranges.into_iter().map(extent).collect::<Vec<_>>());
            prop_assert_eq!(parse_slice_key(&slice_key(&name, &slice)).unwrap(), (name, slice));
        }

        #[test]
        fn any_bytes_are_handled(key in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok((name, slice)) = parse_slice_key(&key) {
                prop_assert_eq!(slice_key(&name, &slice), key);
            }
        }
    }
}
