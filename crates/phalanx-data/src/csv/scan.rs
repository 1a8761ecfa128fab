//! Rows of one file, one after another: blank lines and comments left out, the header read, lines counted.

use super::marks::Marks;
use super::options::CsvOptions;
use super::row::{Dialect, RowCursor, Walk, line_end, walk};
use super::text::Text;
use crate::PartPosition;
use phalanx_base::{Code, Error, Result};

/// Reads rows of one file.
pub(super) struct Scan {
    path: String,
    text: Text,
    dialect: Dialect,
    comment: Option<u8>,
    scratch: Vec<u8>,
    /// The number of the line at which the next row begins, from 1.
    line: u64,
}

/// A row, or why there is none.
pub(super) enum Found {
    /// A row with this number of fields and lines.
    Row { fields: usize, lines: u64 },
    /// A row that breaks the rules of quotes in `field`; the line it began on is skipped.
    Broken { field: usize, why: &'static str },
    /// The end of the file.
    End,
}

impl Scan {
    pub(super) fn open(path: &str, options: &CsvOptions) -> Result<Self> {
        Self::open_at(path, options, PartPosition::START)
    }

    pub(super) fn open_at(path: &str, options: &CsvOptions, from: PartPosition) -> Result<Self> {
        let dialect = Dialect { delimiter: options.delimiter, quotes: options.quotes };
        let text = Text::open(path, from.byte, Marks::new(dialect.delimiter, dialect.quotes))?;
        let line = from.line.max(1);
        Ok(Self { path: path.to_owned(), text, dialect, comment: options.comment, scratch: Vec::new(), line })
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The line at which the next row begins.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// Where the next row begins.
    pub(super) fn offset(&self) -> u64 {
        self.text.offset()
    }

    /// Calls `each` with every field of the next row. If the row is not completely in memory, calls `again` and starts
    /// over. `several` is whether rows have several fields, so that a blank line is not a row.
    #[inline]
    pub(super) fn row<S>(
        &mut self,
        several: bool,
        state: &mut S,
        mut each: impl FnMut(&mut S, usize, &[u8]),
        mut again: impl FnMut(&mut S),
    ) -> Result<Found> {
        loop {
            let (row, mark) = self.text.next();
            let place =
                RowCursor { text: self.text.bytes(), marks: self.text.found(), row, mark, ended: self.text.ended() };
            let Some(&first) = place.text.get(row) else {
                if self.text.is_done() {
                    return Ok(Found::End);
                }
                self.more()?;
                continue;
            };
            let skip = self.comment == Some(first) || (several && matches!(first, b'\n' | b'\r'));
            if skip {
                match line_end(place) {
                    Some((next, mark)) => {
                        self.text.advance(next, mark);
                        self.line += 1;
                    }
                    None => self.more()?,
                }
                continue;
            }
            match walk(place, self.dialect, &mut self.scratch, |field, bytes| each(state, field, bytes)) {
                Walk::Row { fields, next, mark, lines } => {
                    self.text.advance(next, mark);
                    self.line += lines;
                    return Ok(Found::Row { fields, lines });
                }
                Walk::More => {
                    again(state);
                    self.more()?;
                }
                Walk::Broken { field, why } => match line_end(place) {
                    Some((next, mark)) => {
                        self.text.advance(next, mark);
                        self.line += 1;
                        return Ok(Found::Broken { field, why });
                    }
                    None => {
                        again(state);
                        self.more()?;
                    }
                },
            }
        }
    }

    fn more(&mut self) -> Result<()> {
        self.text.more().map_err(|error| match error.place() {
            None => error.at(format!("{}, line {}", self.path, self.line)),
            Some(_) => error,
        })
    }

    /// The names in the first row.
    pub(super) fn header(&mut self) -> Result<Vec<String>> {
        let mut names: Vec<Vec<u8>> = Vec::new();
        let line = self.line;
        match self.row(true, &mut names, |names, _, field| names.push(field.to_vec()), Vec::clear)? {
            Found::Row { .. } => {}
            Found::Broken { why, .. } => {
                return Err(Error::new(Code::DataFormat, "the header does not parse")
                    .at(format!("{}, line {line}", self.path))
                    .because(why));
            }
            Found::End => {
                return Err(Error::new(Code::DataFormat, format!("{:?} is empty", self.path))
                    .because("a header was expected")
                    .help("remove the file; or, where files have no header, give `names` and set `header` to false"));
            }
        }
        let text = |(at, name): (usize, Vec<u8>)| {
            String::from_utf8(name).map_err(|error| {
                Error::new(Code::DataFormat, "the header is not UTF-8")
                    .at(format!("{}, line {line}, field {}", self.path, at + 1))
                    .because(format!("it reads {:?}", String::from_utf8_lossy(error.as_bytes())))
                    .help("is it a CSV file? the names may also be given (`names`)")
            })
        };
        names.into_iter().enumerate().map(text).collect()
    }
}
