//! Many byte strings in one buffer: no allocation per value.

/// Byte strings laid end to end, with the places where each one ends.
///
/// ```
/// use phalanx_data::Strings;
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
    /// No strings yet.
    #[must_use]
    pub fn new() -> Self {
        Self { offsets: vec![0], data: Vec::new() }
    }

    /// Room for `strings` strings of `bytes` bytes together.
    #[must_use]
    pub fn with_capacity(strings: usize, bytes: usize) -> Self {
        let mut offsets = Vec::with_capacity(strings + 1);
        offsets.push(0);
        Self { offsets, data: Vec::with_capacity(bytes) }
    }

    /// Makes room for `strings` more strings of `bytes` bytes together.
    pub fn reserve(&mut self, strings: usize, bytes: usize) {
        self.offsets.reserve(strings);
        self.data.reserve(bytes);
    }

    /// Takes a buffer and its offsets as they are; `None` when they do not describe each other.
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

    /// Strings up to this length are copied as a piece of this length, which is one move and no call.
    pub(crate) const SHORT: usize = 16;

    /// Appends the first `bytes` bytes of `from`; quick where more follow them.
    #[inline]
    pub(crate) fn copy_short(to: &mut Vec<u8>, from: &[u8], bytes: usize) {
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
    pub(crate) fn push_short(&mut self, from: &[u8], bytes: usize) {
        Self::copy_short(&mut self.data, from, bytes);
        self.offsets.push(self.data.len());
    }

    /// Appends bytes to a string still under way; [`Strings::end`] closes it.
    pub fn extend_open(&mut self, part: &[u8]) {
        self.data.extend_from_slice(part);
    }

    /// Closes the string under way.
    pub fn end(&mut self) {
        self.offsets.push(self.data.len());
    }

    /// Appends `range` of another's strings.
    pub fn extend_from(&mut self, other: &Self, range: std::ops::Range<usize>) {
        let (first, last) = (other.offsets[range.start], other.offsets[range.end]);
        let shift = self.data.len();
        self.data.extend_from_slice(&other.data[first..last]);
        self.offsets.extend(other.offsets[range.start + 1..=range.end].iter().map(|end| end - first + shift));
    }

    /// All of them, as a column hands them out.
    #[must_use]
    #[inline]
    pub fn view(&self) -> StringsView<'_> {
        StringsView { offsets: &self.offsets, data: &self.data }
    }

    /// How many strings there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.view().len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.view().is_empty()
    }

    /// One string. Panics when there is no such string, as a slice does.
    #[must_use]
    #[inline]
    pub fn get(&self, index: usize) -> &[u8] {
        self.view().get(index)
    }

    /// Every string in turn.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> + Clone {
        self.view().iter()
    }

    /// Where each string starts in [`Strings::data`], and where the last one ends.
    #[must_use]
    pub fn offsets(&self) -> &[usize] {
        &self.offsets
    }

    /// The bytes of all strings, end to end.
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

/// A window of [`Strings`]: what a column of byte strings hands out.
#[derive(Clone, Copy, Debug)]
pub struct StringsView<'a> {
    offsets: &'a [usize],
    data: &'a [u8],
}

impl<'a> StringsView<'a> {
    pub(crate) fn new(strings: &'a Strings, range: std::ops::Range<usize>) -> Self {
        Self { offsets: &strings.offsets[range.start..=range.end], data: &strings.data }
    }

    /// How many strings there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One string. Panics when there is no such string, as a slice does.
    #[must_use]
    #[inline]
    pub fn get(&self, index: usize) -> &'a [u8] {
        &self.data[self.offsets[index]..self.offsets[index + 1]]
    }

    /// The bytes from one string's start to the end of all, and that string's length.
    #[inline]
    pub(crate) fn from(&self, index: usize) -> (&'a [u8], usize) {
        (&self.data[self.offsets[index]..], self.offsets[index + 1] - self.offsets[index])
    }

    /// How many bytes all of them have.
    #[must_use]
    pub fn byte_len(&self) -> usize {
        self.offsets[self.offsets.len() - 1] - self.offsets[0]
    }

    /// Every string in turn.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        let data = self.data;
        self.offsets.windows(2).map(move |ends| &data[ends[0]..ends[1]])
    }
}
