//! What a format has to offer so that a dataset can read it: shards, interleaving and resuming follow from it.

use crate::Batch;
use phalanx_base::Result;

/// A place inside one part of a [`Source`], small enough to be kept in a checkpoint.
///
/// What the two numbers mean is the reader's own affair, as long as [`Source::open`] at the place continues with the
/// next row, exactly. A reader of plain text stores the byte at which the next row begins; a reader of row groups
/// stores the group in `byte`; a reader of a compressed file, which cannot seek, stores 0 there. `row` counts the rows
/// handed out since `byte` that must be skipped, or since the part's start where the line is wanted for messages:
/// each reader says which in its own documentation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartPosition {
    /// Where to seek to.
    pub byte: u64,
    /// Rows, in the reader's meaning.
    pub row: u64,
    /// A third number for the reader's own use, such as the line number for messages.
    pub line: u64,
}

impl PartPosition {
    /// The start of a part.
    pub const START: Self = Self { byte: 0, row: 0, line: 0 };
}

/// Reads the rows of one part of a [`Source`] in order.
///
/// Dropping a reader ends it: files are closed, and threads it started have ended when `drop` returns.
pub trait Reader: Send {
    /// The next rows, at least one and at most `max_rows`; `None` at the end, and from then on.
    ///
    /// A reader may return fewer rows than asked for, so as to keep a chunk near a megabyte where rows are large.
    /// The caller asks for about a thousand.
    ///
    /// # Errors
    /// When a row does not parse or the part cannot be read. The rows before the faulty one are returned first, so
    /// that an error arrives in its place. After an error the reader is not asked again.
    fn read(&mut self, max_rows: usize) -> Result<Option<Batch>>;

    /// The place right after the rows handed out so far.
    fn position(&self) -> PartPosition;
}

/// Something that can be read again and again, in parts: files, mostly.
///
/// The number of parts and their order must be the same in every process and every time, since workers share the
/// parts among themselves by number (sort what a directory lists).
pub trait Source: Send + Sync {
    /// How many parts there are. May look at the file system, hence may fail; asked once per iteration.
    ///
    /// # Errors
    /// When the parts cannot be listed, or there are none where there should be.
    fn parts(&self) -> Result<usize>;

    /// Opens one part at a place; [`PartPosition::START`] for its beginning.
    ///
    /// # Errors
    /// When the part cannot be opened or is too short for the place.
    fn open(&self, part: usize, from: PartPosition) -> Result<Box<dyn Reader>>;

    /// What this is, in a word or two, for messages: `csv`, `parquet`.
    fn kind(&self) -> &str;

    /// A part's name for messages: its path.
    fn part_name(&self, part: usize) -> String;

    /// Whether parts are files that workers can share out. Sources of a single made-up stream say no and are shared
    /// by element.
    fn is_files(&self) -> bool {
        true
    }
}
