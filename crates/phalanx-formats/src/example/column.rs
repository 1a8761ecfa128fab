//! Columns of a batch: all rows' values of one feature, one after another.

use super::Kind;

/// The values of a column, or a default.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Of a `float_list`.
    F32(Vec<f32>),
    /// Of an `int64_list`.
    I64(Vec<i64>),
    /// Of a `bytes_list`.
    Bytes(ByteStrings),
}

/// Many byte strings in one buffer.
///
/// ```
/// use phalanx_formats::example::ByteStrings;
/// let words: ByteStrings = ["red", "", "car"].into_iter().collect();
/// assert_eq!((words.len(), words.get(2)), (3, Some(&b"car"[..])));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByteStrings {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

/// One feature's values in all rows of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The feature's key.
    pub name: String,
    /// All values, row by row.
    pub values: Values,
    /// Values per item: the length of a fixed feature, the inner length of a ragged one, 1 for a variable one.
    pub width: usize,
    /// Row `i` has the items `row_splits[i]..row_splits[i + 1]`; `None` where every row has exactly one item.
    pub row_splits: Option<Vec<usize>>,
    /// Where the items are steps of any length: step `j` has the values `step_splits[j]..step_splits[j + 1]`, times
    /// the width. Only in the columns of variable and ragged feature lists.
    pub step_splits: Option<Vec<usize>>,
}

/// The columns of some rows, in the order of their specifications.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// How many rows.
    pub rows: usize,
    /// One per wanted feature.
    pub columns: Vec<Column>,
}

impl Batch {
    /// The column of that name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }
}

impl Values {
    pub(super) fn new(kind: Kind) -> Self {
        match kind {
            Kind::F32 => Self::F32(Vec::new()),
            Kind::I64 => Self::I64(Vec::new()),
            Kind::Bytes => Self::Bytes(ByteStrings::default()),
        }
    }

    /// Empty, of the same kind, with room for as much again.
    pub(super) fn successor(&self) -> Self {
        match self {
            Self::F32(values) => Self::F32(Vec::with_capacity(values.len())),
            Self::I64(values) => Self::I64(Vec::with_capacity(values.len())),
            Self::Bytes(values) => Self::Bytes(ByteStrings {
                bytes: Vec::with_capacity(values.bytes.len()),
                ends: Vec::with_capacity(values.ends.len()),
            }),
        }
    }

    /// The type of the values.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::F32(_) => Kind::F32,
            Self::I64(_) => Kind::I64,
            Self::Bytes(_) => Kind::Bytes,
        }
    }

    /// How many values.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::I64(values) => values.len(),
            Self::Bytes(values) => values.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values, if they are floats.
    #[must_use]
    pub fn as_f32(&self) -> Option<&[f32]> {
        if let Self::F32(values) = self { Some(values) } else { None }
    }

    /// The values, if they are integers.
    #[must_use]
    pub fn as_i64(&self) -> Option<&[i64]> {
        if let Self::I64(values) = self { Some(values) } else { None }
    }

    /// The values, if they are byte strings.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&ByteStrings> {
        if let Self::Bytes(values) = self { Some(values) } else { None }
    }

    pub(super) fn truncate(&mut self, length: usize) {
        match self {
            Self::F32(values) => values.truncate(length),
            Self::I64(values) => values.truncate(length),
            Self::Bytes(values) => values.truncate(length),
        }
    }

    /// Appends values of the same kind; those of another kind are left out.
    pub(super) fn extend(&mut self, more: &Self) {
        match (self, more) {
            (Self::F32(values), Self::F32(more)) => values.extend_from_slice(more),
            (Self::I64(values), Self::I64(more)) => values.extend_from_slice(more),
            (Self::Bytes(values), Self::Bytes(more)) => more.iter().for_each(|value| values.push(value)),
            _ => {}
        }
    }
}

impl ByteStrings {
    /// Appends one.
    #[inline]
    pub fn push(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.ends.push(self.bytes.len());
    }

    /// The string at `index`.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)?;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.bytes[start..end])
    }

    /// How many strings.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The strings in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start..end])
    }

    fn truncate(&mut self, length: usize) {
        self.ends.truncate(length);
        self.bytes.truncate(self.ends.last().copied().unwrap_or(0));
    }
}

impl<B: AsRef<[u8]>> FromIterator<B> for ByteStrings {
    fn from_iter<I: IntoIterator<Item = B>>(values: I) -> Self {
        let mut strings = Self::default();
        values.into_iter().for_each(|value| strings.push(value.as_ref()));
        strings
    }
}
