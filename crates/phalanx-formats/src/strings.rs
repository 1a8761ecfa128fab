//! Many byte strings in one buffer: no allocation per value.

/// Byte strings stored end to end in one buffer.
///
/// ```
/// use phalanx_formats::Strings;
/// let words: Strings = ["Private", "", "State-gov"].into_iter().collect();
/// assert_eq!((words.len(), words.get(2)), (3, b"State-gov".as_slice()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strings {
    /// One more than there are strings; starts with 0, never falls, ends with the length of `data`.
    offsets: Vec<usize>,
    data: Vec<u8>,
}

impl Default for Strings {
    fn default() -> Self {
        Self::new()
    }
}

impl Strings {
    /// Creates a list without strings.
    #[must_use]
    pub fn new() -> Self {
        Self { offsets: vec![0], data: Vec::new() }
    }

    /// Creates a list with capacity for `strings` strings of `bytes` bytes in total.
    #[must_use]
    pub fn with_capacity(strings: usize, bytes: usize) -> Self {
        let mut offsets = Vec::with_capacity(strings + 1);
        offsets.push(0);
        Self { offsets, data: Vec::with_capacity(bytes) }
    }

    /// Reserves capacity for `strings` more strings of `bytes` bytes in total.
    pub fn reserve(&mut self, strings: usize, bytes: usize) {
        self.offsets.reserve(strings);
        self.data.reserve(bytes);
    }

    /// Takes a buffer and its offsets as they are; returns `None` if the offsets do not fit the buffer.
    #[must_use]
    pub fn from_parts(offsets: Vec<usize>, data: Vec<u8>) -> Option<Self> {
        let ends = offsets.first() == Some(&0) && offsets.last() == Some(&data.len());
        (ends && offsets.is_sorted()).then_some(Self { offsets, data })
    }

    /// Appends one string.
    pub fn push(&mut self, value: &[u8]) {
        self.data.extend_from_slice(value);
        self.offsets.push(self.data.len());
    }

    /// Strings up to this length are copied as a block of this length: one move and no call.
    pub const SHORT: usize = 16;

    /// Appends the first `bytes` bytes of `from` to `to`; fastest if more bytes follow them.
    #[inline]
    pub fn copy_short(to: &mut Vec<u8>, from: &[u8], bytes: usize) {
        match from.first_chunk::<{ Self::SHORT }>() {
            Some(piece) if bytes <= Self::SHORT => {
                let end = to.len() + bytes;
                to.extend_from_slice(piece);
                to.truncate(end);
            }
            _ => to.extend_from_slice(&from[..bytes]),
        }
    }

    /// Appends the first `bytes` bytes of `from` as a string.
    #[inline]
    pub fn push_short(&mut self, from: &[u8], bytes: usize) {
        Self::copy_short(&mut self.data, from, bytes);
        self.offsets.push(self.data.len());
    }

    /// Appends bytes to the unfinished string; [`Strings::end`] finishes it.
    pub fn extend_open(&mut self, part: &[u8]) {
        self.data.extend_from_slice(part);
    }

    /// Finishes the string that [`Strings::extend_open`] began.
    pub fn end(&mut self) {
        self.offsets.push(self.data.len());
    }

    /// Appends the strings of `other` in `range`.
    pub fn extend_from(&mut self, other: &Self, range: std::ops::Range<usize>) {
        let (first, last) = (other.offsets[range.start], other.offsets[range.end]);
        let shift = self.data.len();
        self.data.extend_from_slice(&other.data[first..last]);
        self.offsets.extend(other.offsets[range.start + 1..=range.end].iter().map(|end| end - first + shift));
    }

    /// Removes all but the first `len` strings.
    pub fn truncate(&mut self, len: usize) {
        self.offsets.truncate(len + 1);
        self.data.truncate(self.offsets[self.offsets.len() - 1]);
    }

    /// Returns a view of all strings.
    #[must_use]
    #[inline]
    pub fn view(&self) -> StringsView<'_> {
        StringsView { offsets: &self.offsets, data: &self.data }
    }

    /// Returns the number of strings.
    #[must_use]
    pub fn len(&self) -> usize {
        self.view().len()
    }

    /// Whether there are no strings.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.view().is_empty()
    }

    /// Returns one string. Panics if there is no such string.
    #[must_use]
    #[inline]
    pub fn get(&self, index: usize) -> &[u8] {
        self.view().get(index)
    }

    /// Iterates over the strings.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> + Clone {
        self.view().iter()
    }

    /// Returns where each string starts in [`Strings::data`], and where the last one ends.
    #[must_use]
    pub fn offsets(&self) -> &[usize] {
        &self.offsets
    }

    /// Returns the bytes of all strings, end to end.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.data
    }
}

impl<S: AsRef<[u8]>> FromIterator<S> for Strings {
    fn from_iter<I: IntoIterator<Item = S>>(values: I) -> Self {
        let mut strings = Self::new();
        for value in values {
            strings.push(value.as_ref());
        }
        strings
    }
}

/// A view of some [`Strings`].
#[derive(Clone, Copy, Debug)]
pub struct StringsView<'a> {
    offsets: &'a [usize],
    data: &'a [u8],
}

impl<'a> StringsView<'a> {
    /// Returns a view of the strings in `range`.
    #[must_use]
    pub fn new(strings: &'a Strings, range: std::ops::Range<usize>) -> Self {
        Self { offsets: &strings.offsets[range.start..=range.end], data: &strings.data }
    }

    /// Returns the number of strings.
    #[must_use]
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there are no strings.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns one string. Panics if there is no such string.
    #[must_use]
    #[inline]
    pub fn get(&self, index: usize) -> &'a [u8] {
        &self.data[self.offsets[index]..self.offsets[index + 1]]
    }

    /// Returns the bytes from the start of one string to the end of all, and the length of that string.
    #[must_use]
    #[inline]
    pub fn from(&self, index: usize) -> (&'a [u8], usize) {
        (&self.data[self.offsets[index]..], self.offsets[index + 1] - self.offsets[index])
    }

    /// Returns how many bytes all strings have together.
    #[must_use]
    pub fn byte_len(&self) -> usize {
        self.offsets[self.offsets.len() - 1] - self.offsets[0]
    }

    /// Iterates over the strings.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        let data = self.data;
        self.offsets.windows(2).map(move |ends| &data[ends[0]..ends[1]])
    }
}
