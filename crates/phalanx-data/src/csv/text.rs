//! The part of a CSV file that is in memory, with its marks.

use super::marks::Marks;
use crate::files::InputFile;
use phalanx_base::{Code, Error, Result};

/// How much is read at once: it stays in the second-level cache while its rows are parsed.
const BLOCK: usize = 256 << 10;
/// The longest row. Beyond it somebody has not closed a quote.
const MAX_ROW: usize = 64 << 20;

/// A window of the file that moves forward a row at a time.
pub(super) struct Text {
    input: InputFile,
    marks: Marks,
    buffer: Vec<u8>,
    filled: usize,
    found: Vec<u32>,
    /// Where the next row begins in the buffer, and the first mark at or after it.
    row: usize,
    mark: usize,
    /// Where the buffer begins in the file.
    base: u64,
    ended: bool,
}

impl Text {
    /// The file from byte `from` on.
    pub(super) fn open(path: &str, from: u64, marks: Marks) -> Result<Self> {
        let input = InputFile::open(path, from)?;
        let (buffer, found) = (vec![0; BLOCK], Vec::new());
        let mut text = Self { input, marks, buffer, filled: 0, found, row: 0, mark: 0, base: from, ended: false };
        text.more()?;
        // Spreadsheets write a byte order mark, which is no part of the first name.
        if from == 0 && text.bytes().starts_with(b"\xef\xbb\xbf") {
            text.row = 3;
        }
        Ok(text)
    }

    /// What is in memory.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.filled]
    }

    /// The positions of all marks in [`Text::bytes`].
    #[inline]
    pub(super) fn found(&self) -> &[u32] {
        &self.found
    }

    /// Where the next row begins in [`Text::bytes`], and its first mark in [`Text::found`].
    #[inline]
    pub(super) fn next(&self) -> (usize, usize) {
        (self.row, self.mark)
    }

    /// Goes on to the next row.
    #[inline]
    pub(super) fn advance(&mut self, row: usize, mark: usize) {
        (self.row, self.mark) = (row, mark);
    }

    /// Where the next row begins in the file.
    pub(super) fn offset(&self) -> u64 {
        self.base + self.row as u64
    }

    /// Whether nothing follows what is in memory.
    #[inline]
    pub(super) fn ended(&self) -> bool {
        self.ended
    }

    /// Whether there is no row any more.
    pub(super) fn is_done(&self) -> bool {
        self.ended && self.row == self.filled
    }

    /// Reads on, keeping the row that has begun.
    pub(super) fn more(&mut self) -> Result<()> {
        self.buffer.copy_within(self.row..self.filled, 0);
        self.base += self.row as u64;
        self.filled -= self.row;
        (self.row, self.mark) = (0, 0);
        // A row that fills half of the buffer would be looked at again and again: it doubles.
        if self.filled * 2 > self.buffer.len() {
            if self.filled > MAX_ROW {
                return Err(Error::new(Code::DataRow, format!("a row has more than {} MiB", MAX_ROW >> 20))
                    .because("a quoted field may not have been closed")
                    .help("close the quote, or read the file with quotes off"));
            }
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        let count = self.input.fill(&mut self.buffer[self.filled..])?;
        self.ended = self.filled + count < self.buffer.len();
        self.filled += count;
        self.found.clear();
        self.marks.find(&self.buffer[..self.filled], 0, &mut self.found);
        Ok(())
    }
}
