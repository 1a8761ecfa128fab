//! A stream of records kept in one growing file, or in several where files cannot grow.

use crate::{AppendFile, Dir, fault};
use phalanx_base::{Error, Result};
use std::io::{self, Write};

/// Writes a stream that readers can follow, such as a log of events.
///
/// Where the store can append, all goes to the file with number 0. Elsewhere every `flush` publishes what was gathered
/// since the last one as a file of its own, with the next number. Either way each file begins with the header. A name
/// that is taken already is left alone: its number is skipped, or, where the store can append, the file is continued.
///
/// A file is cut only at `flush`, so flush after whole records. See [`Roll::cut_at`] for a limit on the size.
///
/// ```
/// use std::io::Write;
/// use phalanx_storage::{Dir, Roll};
///
/// let dir = Dir::in_memory();
/// let mut roll = Roll::new(&dir, b"header;".to_vec(), |n| format!("events.{n}"))?;
/// roll.write_all(b"one;").unwrap();
/// roll.flush().unwrap();
/// roll.write_all(b"two;").unwrap();
/// roll.finish()?;
/// assert_eq!(dir.read("events.0", 100)?, b"header;one;");
/// assert_eq!(dir.read("events.1", 100)?, b"header;two;");
/// # Ok::<(), phalanx_base::Error>(())
/// ```
pub struct Roll {
    dir: Dir,
    name: Box<dyn Fn(u64) -> String + Send>,
    way: Way,
}

enum Way {
    Append(AppendFile),
    Publish(Gathered),
}

/// What was not published yet.
struct Gathered {
    /// The header, then the records.
    bytes: Vec<u8>,
    header_len: usize,
    next: u64,
    cut_at: Option<usize>,
}

impl Roll {
    /// Begins a stream in `dir`. `name` gives the name of the file with a number.
    ///
    /// # Errors
    /// When the first file cannot be opened. Where the store cannot append, nothing is written yet.
    pub fn new(dir: &Dir, header: Vec<u8>, name: impl Fn(u64) -> String + Send + 'static) -> Result<Self> {
        let way = if dir.can_append() {
            let mut file = dir.append(&name(0))?;
            if file.size() == 0 {
                file.write_all(&header).map_err(|error| ours(dir, &name(0), &error))?;
            }
            Way::Append(file)
        } else {
            Way::Publish(Gathered { header_len: header.len(), bytes: header, next: 0, cut_at: None })
        };
        Ok(Self { dir: dir.clone(), name: Box::new(name), way })
    }

    /// Also publishes when `bytes` were gathered, between two calls of `write`. So each call must then hold whole
    /// records. Without effect where the store can append.
    #[must_use]
    pub fn cut_at(mut self, bytes: usize) -> Self {
        if let Way::Publish(gathered) = &mut self.way {
            gathered.cut_at = Some(bytes);
        }
        self
    }

    /// Flushes, and waits until the bytes are durable.
    ///
    /// # Errors
    /// When they cannot be written. They are kept, and the next flush tries again.
    pub fn sync(&mut self) -> Result<()> {
        match &mut self.way {
            Way::Append(file) => file.sync(),
            Way::Publish(gathered) => gathered.publish(&self.dir, &*self.name),
        }
    }

    /// Ends the stream.
    ///
    /// # Errors
    /// When the rest cannot be written.
    pub fn finish(mut self) -> Result<()> {
        self.sync()
    }
}

impl Gathered {
    fn is_empty(&self) -> bool {
        self.bytes.len() <= self.header_len
    }

    fn publish(&mut self, dir: &Dir, name: &dyn Fn(u64) -> String) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        while dir.size(&name(self.next))?.is_some() {
            self.next += 1;
        }
        dir.write(&name(self.next), &self.bytes)?;
        self.next += 1;
        self.bytes.truncate(self.header_len);
        Ok(())
    }
}

impl Write for Roll {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let gathered = match &mut self.way {
            Way::Append(file) => return file.write(buf),
            Way::Publish(gathered) => gathered,
        };
        let payload = gathered.bytes.len() - gathered.header_len;
        if gathered.cut_at.is_some_and(|limit| payload + buf.len() > limit) {
            let published = gathered.publish(&self.dir, &*self.name);
            published.map_err(|error| fault::as_io(error, io::ErrorKind::Other))?;
        }
        gathered.bytes.extend_from_slice(buf);
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.way {
            Way::Append(file) => file.flush(),
            Way::Publish(gathered) => {
                let published = gathered.publish(&self.dir, &*self.name);
                published.map_err(|error| fault::as_io(error, io::ErrorKind::Other))
            }
        }
    }
}

impl Drop for Roll {
    fn drop(&mut self) {
        // Errors are lost here; call `finish` to see them.
        let _ = self.flush();
    }
}

impl std::fmt::Debug for Roll {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Roll").field("dir", &self.dir).finish_non_exhaustive()
    }
}

fn ours(dir: &Dir, name: &str, error: &io::Error) -> Error {
    fault::write("append to the file", &dir.place(name), error)
}
