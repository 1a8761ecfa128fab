//! What was appended to a file.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

/// So much is read at once; the rest the next time.
const AT_ONCE: u64 = 8 << 20;

/// Reads a growing file line by line.
#[derive(Debug)]
pub(super) struct Tail {
    path: PathBuf,
    offset: u64,
    partial: Vec<u8>,
}

impl Tail {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, offset: 0, partial: Vec::new() }
    }

    /// Hands over the lines that were added; a file that is not there has none. One that became shorter is read anew.
    /// Says whether there is more.
    pub(super) fn read(&mut self, mut take: impl FnMut(&str)) -> bool {
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
        if file.take(AT_ONCE).read_to_end(&mut bytes).is_err() {
            return false;
        }
        self.offset += bytes.len() as u64 - before;
        let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        self.partial = bytes.split_off(whole);
        if self.partial.len() as u64 > AT_ONCE {
            // A line of this length is no line.
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
    fn only_whole_lines_are_handed_over_and_each_once() {
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
