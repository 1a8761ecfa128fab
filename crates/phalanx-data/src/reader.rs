//! The traits that a file format implements; sharding, interleaving and resuming build on them.

use crate::Batch;
use phalanx_base::Result;

/// A position inside one part of a [`Source`], small enough for a checkpoint.
///
/// Each reader defines what the three numbers mean, as long as [`Source::open`] at the position continues with exactly
/// the next row. A reader of plain text stores the byte at which the next row begins; a reader of row groups stores the
/// group in `byte`; a reader of a compressed file, which cannot seek, stores 0 there. `row` counts the rows returned since
/// `byte`, which must be skipped, or since the start of the part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartPosition {
    /// Where to seek to.
    pub byte: u64,
    /// A number of rows.
    pub row: u64,
    /// For the reader's own use, such as the line number for messages.
    pub line: u64,
}

impl PartPosition {
    /// The start of a part.
    pub const START: Self = Self { byte: 0, row: 0, line: 0 };
}

/// Reads the rows of one part of a [`Source`] in order.
///
/// Dropping a reader closes its files; threads it started have ended when `drop` returns.
pub trait Reader: Send {
    /// Returns the next rows, at least one and at most `max_rows`; `None` at the end, and from then on.
    ///
    /// A reader may return fewer rows than requested, to keep a chunk of large rows near a megabyte. Callers request
    /// about a thousand.
    ///
    /// # Errors
    /// When a row does not parse or the part cannot be read. The rows before the faulty one are returned first. After an
    /// error the reader is not called again.
    fn read(&mut self, max_rows: usize) -> Result<Option<Batch>>;

    /// Returns the position after the rows returned so far.
    fn position(&self) -> PartPosition;

    /// Returns where the last row returned is, for messages: `data.csv, line 7`. Called rarely; the default has no answer.
    fn last_row(&self) -> Option<String> {
        None
    }
}

/// An input that can be read repeatedly, in parts; parts are usually files.
///
/// The number of parts and their order must be the same in every process and every time, because workers divide the
/// parts by number (sort what a directory lists).
pub trait Source: Send + Sync {
    /// Returns the number of parts. May access the file system; called once per pass.
    ///
    /// # Errors
    /// When the parts cannot be listed, or none exist.
    fn parts(&self) -> Result<usize>;

    /// Opens one part at a position; [`PartPosition::START`] is its beginning.
    ///
    /// # Errors
    /// When the part cannot be opened or is shorter than the position.
    fn open(&self, part: usize, from: PartPosition) -> Result<Box<dyn Reader>>;

    /// Returns the kind of source for messages: `csv`, `parquet`.
    fn kind(&self) -> &str;

    /// Returns the name of a part for messages: its path.
    fn part_name(&self, part: usize) -> String;

    /// Whether parts are files that workers can divide among themselves. If not, workers divide the elements.
    fn is_files(&self) -> bool {
        true
    }
}
