//! Reading a file that grows.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

/// The most bytes of one read.
const MAX_READ: u64 = 8 << 20;

/// Reads the lines that are appended to a file.
#[derive(Debug)]
pub(crate) struct Tail {
    path: PathBuf,
    offset: u64,
    partial: Vec<u8>,
}

impl Tail {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, offset: 0, partial: Vec::new() }
    }

    /// Passes complete new lines to `take` and returns whether there is more to read. A missing file has no lines; a file that
    /// became shorter is read again from its start.
    pub(crate) fn read(&mut self, mut take: impl FnMut(&str)) -> bool {
        let Ok(mut file) = File::open(&self.path) else { return false };
        let length = file.metadata().map_or(0, |about| about.len());
        if length < self.offset {
            (self.offset, self.partial) = (0, Vec::new());
        }
        if length == self.offset || file.seek(SeekFrom::Start(self.offset)).is_err() {
            return false;
        }
        let mut bytes = std::mem::take(&mut self.partial);
        let before = bytes.len() as u64;
        if file.take(MAX_READ).read_to_end(&mut bytes).is_err() {
            return false;
        }
        self.offset += bytes.len() as u64 - before;
        let complete = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        self.partial = bytes.split_off(complete);
        if self.partial.len() as u64 > MAX_READ {
            // This is not a text file.
            self.partial.clear();
        }
        for line in bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            take(&String::from_utf8_lossy(line));
        }
        self.offset < length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_complete_lines_are_passed_on_and_each_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.log");
        let mut tail = Tail::new(path.clone());
        let mut read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let mut lines = Vec::new();
            assert!(!tail.read(|line| lines.push(line.to_owned())));
            lines
        };
        assert_eq!(read("one\ntw"), ["one"]);
        assert_eq!(read("one\ntwo\nthree\n"), ["two", "three"]);
        assert_eq!(read("one\ntwo\nthree\n"), [""; 0]);
        assert_eq!(read("new\n"), ["new"]);
    }
}
