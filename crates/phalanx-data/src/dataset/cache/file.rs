//! A cache in a file: TFRecords, the first naming the pipeline, each other one a chunk of elements.

use super::super::node::{CHUNK, ElementKind, Stage};
use super::super::random::fresh_seed;
use crate::Batch;
use crate::position::Saver;
use phalanx_base::{Code, Context as _, Error, Result};
use phalanx_formats::record::{RecordReader, RecordWriter};
use std::fs::File;
use std::io::{BufReader, BufWriter, ErrorKind};
use std::path::{Path, PathBuf};

/// The first bytes of the first record.
const MAGIC: &str = "phalanx cache 1\n";

/// Reads a complete cache.
pub(super) struct FileStage {
    records: RecordReader<BufReader<File>>,
    chunk: Option<(Batch, usize)>,
    kind: ElementKind,
    done: u64,
    path: PathBuf,
}

impl FileStage {
    /// Opens the cache, if it is there.
    pub(super) fn open(path: &Path, kind: ElementKind, owner: &str) -> Result<Option<Self>> {
        let place = path.display().to_string();
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(error).context(Code::DataMissing, "a cache file cannot be opened").map_err(|e| e.at(place));
            }
        };
        let mut records = RecordReader::new(BufReader::new(file)).with_max_record_bytes(1 << 40);
        let head = records.next_record()?.unwrap_or_default();
        if head != format!("{MAGIC}{owner}").as_bytes() {
            let found = head.strip_prefix(MAGIC.as_bytes()).map(String::from_utf8_lossy);
            return Err(Error::new(Code::DataFormat, "the cache file was written by another pipeline")
                .at(place)
                .because(format!("it holds {}", found.as_deref().unwrap_or("something else")))
                .help("delete the file, or give this pipeline another one"));
        }
        Ok(Some(Self { records, chunk: None, kind, done: 0, path: path.to_path_buf() }))
    }
}

impl Stage for FileStage {
    fn next(&mut self, max: usize) -> Result<Option<Batch>> {
        let at = |error: Error| error.at(self.path.display().to_string());
        let (chunk, used) = match self.chunk.take() {
            Some(in_hand) => in_hand,
            None => match self.records.next_record().map_err(at)? {
                Some(record) => (Batch::from_bytes(record).map_err(at)?, 0),
                None => return Ok(None),
            },
        };
        let of = self.kind.elements(&chunk);
        let end = of.min(used.saturating_add(max));
        self.done += (end - used) as u64;
        let out = if self.kind == ElementKind::Rows { chunk.slice(used..end) } else { chunk.clone() };
        self.chunk = (end < of).then_some((chunk, end));
        Ok(Some(out))
    }

    fn save(&self, out: &mut Saver) {
        out.u64(self.done);
    }
}

/// Passes elements on and writes them beside; the file gets its name when the end is reached.
pub(super) struct WriteStage {
    upstream: Box<dyn Stage>,
    kind: ElementKind,
    done: u64,
    /// `None` once the file is published.
    writing: Option<Writing>,
}

struct Writing {
    records: RecordWriter<BufWriter<File>>,
    /// Rows are collected into chunks of a good size.
    waiting: Vec<Batch>,
    rows: usize,
    aside: PathBuf,
    path: PathBuf,
}

impl WriteStage {
    pub(super) fn new(upstream: Box<dyn Stage>, path: &Path, kind: ElementKind, owner: &str) -> Result<Self> {
        let mut aside = path.as_os_str().to_owned();
        aside.push(format!(".tmp-{:016x}", fresh_seed()));
        let aside = PathBuf::from(aside);
        let file = File::create_new(&aside)
            .context(Code::StorageWrite, "a cache file cannot be written")
            .map_err(|error| error.at(aside.display().to_string()))?;
        let records = RecordWriter::new(BufWriter::new(file));
        let mut writing = Writing { records, waiting: Vec::new(), rows: 0, aside, path: path.to_path_buf() };
        writing.records.write_record(format!("{MAGIC}{owner}").as_bytes())?;
        Ok(Self { upstream, kind, done: 0, writing: Some(writing) })
    }
}

impl Writing {
    fn add(&mut self, chunk: &Batch, kind: ElementKind) -> Result<()> {
        if kind == ElementKind::Batches || self.waiting.first().is_some_and(|first| !first.same_layout(chunk)) {
            self.flush()?;
        }
        self.rows += chunk.rows();
        self.waiting.push(chunk.clone());
        if self.rows >= CHUNK { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        if !self.waiting.is_empty() {
            let mut bytes = Saver::default();
            Batch::concat(&self.waiting)?.to_bytes(&mut bytes);
            self.records.write_record(bytes.as_slice()).map_err(|error| error.at(self.aside.display().to_string()))?;
            self.waiting.clear();
            self.rows = 0;
        }
        Ok(())
    }

    fn publish(mut self) -> Result<()> {
        self.flush()?;
        self.records.flush()?;
        let renamed = std::fs::rename(&self.aside, &self.path);
        renamed
            .context(Code::StorageWrite, "a cache file cannot be given its name")
            .map_err(|error| error.at(self.path.display().to_string()))
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        // Not there any more after publishing; an unfinished one is of no use.
        let _ = std::fs::remove_file(&self.aside);
    }
}

impl Stage for WriteStage {
    fn next(&mut self, max: usize) -> Result<Option<Batch>> {
        let Some(chunk) = self.upstream.next(max)? else {
            self.writing.take().map_or(Ok(()), Writing::publish)?;
            return Ok(None);
        };
        self.done += self.kind.elements(&chunk) as u64;
        if let Some(writing) = &mut self.writing {
            writing.add(&chunk, self.kind)?;
        }
        Ok(Some(chunk))
    }

    fn save(&self, out: &mut Saver) {
        out.u64(self.done);
    }
}
