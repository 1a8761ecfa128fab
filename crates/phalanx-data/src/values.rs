//! The numbers or strings of a column, flat.

use crate::{Strings, StringsView};
use std::ops::Range;

/// The type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// 32-bit floating point.
    F32,
    /// Signed 64-bit integers: ids, labels, counts.
    I64,
    /// Bytes as numbers: pixels.
    U8,
    /// Byte strings of any length.
    Bytes,
}

impl DType {
    /// TensorFlow's name of the type.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "float32",
            Self::I64 => "int64",
            Self::U8 => "uint8",
            Self::Bytes => "string",
        }
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Flat values of one type.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// 32-bit floating point.
    F32(Vec<f32>),
    /// Signed 64-bit integers.
    I64(Vec<i64>),
    /// Bytes as numbers.
    U8(Vec<u8>),
    /// Byte strings.
    Bytes(Strings),
}

/// A view of some [`Values`].
#[derive(Clone, Copy, Debug)]
pub enum ValuesView<'a> {
    /// 32-bit floating point.
    F32(&'a [f32]),
    /// Signed 64-bit integers.
    I64(&'a [i64]),
    /// Bytes as numbers.
    U8(&'a [u8]),
    /// Byte strings.
    Bytes(StringsView<'a>),
}

impl Values {
    /// Creates an empty list of this type with capacity for `capacity` values.
    #[must_use]
    pub fn with_capacity(dtype: DType, capacity: usize) -> Self {
        match dtype {
            DType::F32 => Self::F32(Vec::with_capacity(capacity)),
            DType::I64 => Self::I64(Vec::with_capacity(capacity)),
            DType::U8 => Self::U8(Vec::with_capacity(capacity)),
            DType::Bytes => Self::Bytes(Strings::with_capacity(capacity, 0)),
        }
    }

    /// The type.
    #[must_use]
    pub fn dtype(&self) -> DType {
        match self {
            Self::F32(_) => DType::F32,
            Self::I64(_) => DType::I64,
            Self::U8(_) => DType::U8,
            Self::Bytes(_) => DType::Bytes,
        }
    }

    /// How many values there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::I64(values) => values.len(),
            Self::U8(values) => values.len(),
            Self::Bytes(values) => values.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a view of the values in `range`. Panics if it is out of range.
    #[must_use]
    pub fn view(&self, range: Range<usize>) -> ValuesView<'_> {
        match self {
            Self::F32(values) => ValuesView::F32(&values[range]),
            Self::I64(values) => ValuesView::I64(&values[range]),
            Self::U8(values) => ValuesView::U8(&values[range]),
            Self::Bytes(values) => ValuesView::Bytes(StringsView::new(values, range)),
        }
    }

    /// Appends the values of `other` in `range`; returns false if the types differ.
    #[must_use]
    pub(crate) fn extend_from(&mut self, other: &Self, range: Range<usize>) -> bool {
        match (self, other) {
            (Self::F32(to), Self::F32(from)) => to.extend_from_slice(&from[range]),
            (Self::I64(to), Self::I64(from)) => to.extend_from_slice(&from[range]),
            (Self::U8(to), Self::U8(from)) => to.extend_from_slice(&from[range]),
            (Self::Bytes(to), Self::Bytes(from)) => to.extend_from(from, range),
            _ => return false,
        }
        true
    }
}

impl PartialEq for ValuesView<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::F32(a), Self::F32(b)) => a == b,
            (Self::I64(a), Self::I64(b)) => a == b,
            (Self::U8(a), Self::U8(b)) => a == b,
            (Self::Bytes(a), Self::Bytes(b)) => a.iter().eq(b.iter()),
            _ => false,
        }
    }
}
