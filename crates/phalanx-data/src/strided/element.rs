//! The values of such files, and how they become ours.

use super::Conversion;
use crate::{Column, Strings, Values};
use phalanx_base::Result;

/// The type of one value in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    U8,
    I8,
    I16,
    I32,
    I64,
    U16,
    U32,
    F32,
    F64,
    /// One byte, 0 or 1.
    Bool,
    /// A string of this many bytes; trailing zeros do not count.
    Bytes(usize),
    /// A string of this many code points of four bytes each; trailing zeros do not count.
    Unicode(usize),
}

/// How a file's rows lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) element: Element,
    pub(crate) big_endian: bool,
    pub(crate) row_shape: Vec<usize>,
    pub(crate) rows: u64,
    /// How many bytes the header has.
    pub(crate) start: u64,
}

impl Element {
    pub(crate) fn size(self) -> usize {
        match self {
            Self::U8 | Self::I8 | Self::Bool => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::F64 => 8,
            Self::Bytes(size) => size,
            Self::Unicode(size) => size.saturating_mul(4),
        }
    }
}

impl Layout {
    /// Bytes of one row; `None` where they cannot be counted.
    pub(crate) fn stride(&self) -> Option<usize> {
        self.row_shape.iter().try_fold(self.element.size(), |size, &dim| size.checked_mul(dim))
    }

    /// The bytes of whole rows as a column.
    pub(crate) fn column(&self, bytes: &[u8], rows: usize, conversion: Conversion) -> Result<Column> {
        let numbers = self.values(bytes);
        let values = match (numbers, conversion) {
            (Values::U8(values), Conversion::Integers) => Values::I64(values.into_iter().map(i64::from).collect()),
            (Values::U8(values), Conversion::Scaled) => {
                Values::F32(values.into_iter().map(|value| f32::from(value) / 255.0).collect())
            }
            (Values::I64(values), Conversion::Scaled) => {
                Values::F32(values.into_iter().map(|value| value as f32).collect())
            }
            (values, _) => values,
        };
        let column = Column::new(values);
        if self.row_shape.is_empty() {
            return Ok(column);
        }
        debug_assert!(self.stride() == Some(0) || bytes.len() / rows.max(1) == self.stride().unwrap_or(0));
        column.with_row_shape(self.row_shape.clone())
    }

    fn values(&self, bytes: &[u8]) -> Values {
        let big = self.big_endian;
        match self.element {
            Element::U8 => Values::U8(bytes.to_vec()),
            Element::Bool => Values::I64(bytes.iter().map(|&byte| i64::from(byte != 0)).collect()),
            Element::I8 => Values::I64(bytes.iter().map(|&byte| i64::from(byte as i8)).collect()),
            Element::I16 => Values::I64(words(bytes, big, |word| i16::from_le_bytes(word).into())),
            Element::U16 => Values::I64(words(bytes, big, |word| u16::from_le_bytes(word).into())),
            Element::I32 => Values::I64(words(bytes, big, |word| i32::from_le_bytes(word).into())),
            Element::U32 => Values::I64(words(bytes, big, |word| u32::from_le_bytes(word).into())),
            Element::I64 => Values::I64(words(bytes, big, i64::from_le_bytes)),
            Element::F32 => Values::F32(words(bytes, big, f32::from_le_bytes)),
            Element::F64 => Values::F32(words(bytes, big, |word| f64::from_le_bytes(word) as f32)),
            Element::Bytes(size) => Values::Bytes(texts(bytes, size, |text, strings| strings.push(cut(text)))),
            Element::Unicode(size) => Values::Bytes(texts(bytes, 4 * size, |text, strings| {
                let points = words(text, big, u32::from_le_bytes);
                let end = points.iter().rposition(|&point| point != 0).map_or(0, |at| at + 1);
                for &point in &points[..end] {
                    let c = char::from_u32(point).unwrap_or(char::REPLACEMENT_CHARACTER);
                    strings.extend_open(c.encode_utf8(&mut [0; 4]).as_bytes());
                }
                strings.end();
            })),
        }
    }
}

fn words<const N: usize, T>(bytes: &[u8], big_endian: bool, read: impl Fn([u8; N]) -> T) -> Vec<T> {
    let words = bytes.as_chunks::<N>().0.iter();
    if big_endian {
        return words
            .map(|word| {
                let mut word = *word;
                word.reverse();
                read(word)
            })
            .collect();
    }
    words.map(|&word| read(word)).collect()
}

fn texts(bytes: &[u8], size: usize, push: impl Fn(&[u8], &mut Strings)) -> Strings {
    let mut strings = Strings::with_capacity(bytes.len() / size.max(1), bytes.len());
    // A size of 0 is refused where headers are read.
    bytes.chunks_exact(size.max(1)).for_each(|text| push(text, &mut strings));
    strings
}

fn cut(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|&byte| byte != 0).map_or(0, |at| at + 1);
    &text[..end]
}
