//! Text files, a line per row.

use crate::files::{FileList, Files, InputFile};
use crate::{Batch, Column, PartPosition, Reader, Schema, Source, Strings};
use phalanx_base::{Code, Error, Result};
use std::sync::Arc;

const BLOCK: usize = 256 << 10;
/// Longer lines than this are no text.
const MAX_LINE: usize = 64 << 20;

/// Reads text files: every line is a row of the string column `line`, without its line end.
///
/// As TensorFlow's `TextLineDataset`: an empty line is a row, a line end at the end of the file begins no further one.
///
/// ```
/// use phalanx_data::{PartPosition, Source, text_lines};
/// let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("a.txt");
/// std::fs::write(&path, "one\ntwo\r\n").unwrap();
/// let batch = text_lines(&path).open(0, PartPosition::START)?.read(10)?.unwrap();
/// assert_eq!(batch.bytes("line")?.iter().collect::<Vec<_>>(), [b"one", b"two"]);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
pub fn text_lines(files: impl Into<Files>) -> TextLines {
    TextLines { files: FileList::new(files.into()), skip: 0 }
}

/// Text files; made by [`text_lines`].
#[derive(Clone, Debug)]
pub struct TextLines {
    files: FileList,
    skip: u64,
}

impl TextLines {
    /// Leaves out the first lines of every file.
    #[must_use]
    pub fn skip_lines(self, lines: u64) -> Self {
        Self { skip: lines, ..self }
    }
}

impl Source for TextLines {
    fn parts(&self) -> Result<usize> {
        Ok(self.files.list()?.len())
    }

    fn open(&self, part: usize, from: PartPosition) -> Result<Box<dyn Reader>> {
        let path = self.part_name(part);
        let mut reader = TextReader {
            input: InputFile::open(&path, from.byte)?,
            path,
            buffer: Vec::new(),
            at: 0,
            ended: false,
            place: from,
            schema: Arc::new(Schema::new(["line"])?),
        };
        if from == PartPosition::START {
            for _ in 0..self.skip {
                reader.line()?;
            }
        }
        Ok(Box::new(reader))
    }

    fn kind(&self) -> &str {
        "text"
    }

    fn part_name(&self, part: usize) -> String {
        self.files.name(part)
    }
}

/// `byte` of its position is the next line's first byte, `line` how many lines were read.
struct TextReader {
    input: InputFile,
    path: String,
    buffer: Vec<u8>,
    at: usize,
    ended: bool,
    place: PartPosition,
    schema: Arc<Schema>,
}

impl TextReader {
    /// The next line's place in the buffer, without its end.
    fn line(&mut self) -> Result<Option<std::ops::Range<usize>>> {
        let mut looked = self.at;
        loop {
            if let Some(far) = self.buffer[looked..].iter().position(|&byte| byte == b'\n') {
                let start = self.at;
                self.at = looked + far + 1;
                return Ok(Some(self.take(start, self.at - 1)));
            }
            if self.ended {
                let start = self.at;
                self.at = self.buffer.len();
                return Ok((start < self.at).then(|| self.take(start, self.at)));
            }
            looked = self.buffer.len() - self.at;
            self.more()?;
        }
    }

    fn take(&mut self, start: usize, end: usize) -> std::ops::Range<usize> {
        self.place.byte += (self.at - start) as u64;
        self.place.line += 1;
        let carriage = end > start && self.buffer[end - 1] == b'\r';
        start..end - usize::from(carriage)
    }

    fn more(&mut self) -> Result<()> {
        self.buffer.drain(..self.at);
        self.at = 0;
        let have = self.buffer.len();
        if have > MAX_LINE {
            return Err(Error::new(Code::DataFormat, format!("a line has more than {} MiB", MAX_LINE >> 20))
                .at(format!("{}, line {}", self.path, self.place.line + 1))
                .because("is it a text file?"));
        }
        self.buffer.resize(have + BLOCK.max(have), 0);
        let count = self.input.fill(&mut self.buffer[have..])?;
        self.ended = have + count < self.buffer.len();
        self.buffer.truncate(have + count);
        Ok(())
    }
}

impl Reader for TextReader {
    fn read(&mut self, max_rows: usize) -> Result<Option<Batch>> {
        let mut lines = Strings::new();
        while lines.len() < max_rows.max(1) && lines.data().len() < 1 << 20 {
            let Some(line) = self.line()? else { break };
            lines.push(&self.buffer[line]);
        }
        if lines.is_empty() {
            return Ok(None);
        }
        Batch::with_schema(self.schema.clone(), vec![Column::bytes(lines)]).map(Some)
    }

    fn position(&self) -> PartPosition {
        self.place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str, chunk: usize) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        std::fs::write(&path, text).unwrap();
        let source = text_lines(&path);
        let mut lines = Vec::new();
        let mut place = PartPosition::START;
        // Every batch from a reader of its own: positions are exact.
        while let Some(batch) = {
            let mut reader = source.open(0, place).unwrap();
            let batch = reader.read(chunk).unwrap();
            place = reader.position();
            batch
        } {
            lines.extend(batch.bytes("line").unwrap().iter().map(|line| String::from_utf8_lossy(line).into_owned()));
        }
        assert_eq!(place.line as usize, lines.len());
        lines
    }

    #[test]
    fn lines_as_tensorflow_sees_them() {
        for chunk in [1, 2, 100] {
            assert_eq!(lines("a\n\nb\r\nc", chunk), ["a", "", "b", "c"]);
            assert_eq!(lines("a\n", chunk), ["a"]);
            assert_eq!(lines("\n", chunk), [""]);
            assert!(lines("", chunk).is_empty());
        }
    }

    #[test]
    fn long_lines_and_many_lines() {
        let text: String = (0..30_000).map(|i| format!("{i}\n")).chain(["x".repeat(1_000_000)]).collect();
        let read = lines(&text, 10_000);
        assert_eq!((read.len(), read[29_999].as_str(), read[30_000].len()), (30_001, "29999", 1_000_000));
    }

    #[test]
    fn the_first_lines_can_be_left_out() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.txt"), "head\nrow\n").unwrap();
        let source = text_lines(folder.path().join("*.txt")).skip_lines(1);
        let mut reader = source.open(0, PartPosition::START).unwrap();
        assert_eq!(reader.read(5).unwrap().unwrap().bytes("line").unwrap().get(0), b"row");
        assert!(reader.read(5).unwrap().is_none());
    }
}
