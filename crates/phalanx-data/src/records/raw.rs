//! Records as they are, and what all readers of records share.

use super::Examples;
use crate::files::{FileList, Files, OpenFile, open};
use crate::{Batch, Column, PartPosition, Reader, Schema, Source, Strings};
use phalanx_base::{Code, Context, Error, Result};
use phalanx_formats::example::{FeatureKind, FeatureSpec, read_any_example};
use phalanx_formats::record::{Compression, ReadOptions, RecordReader};
use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

/// How many bytes of records become one batch at most.
pub(super) const CHUNK: usize = 1 << 20;

/// TFRecord files; made by [`tfrecord`](crate::tfrecord).
#[derive(Clone, Debug)]
pub struct Records {
    files: FileList,
    compression: Option<Compression>,
}

impl Records {
    pub(super) fn new(files: Files) -> Self {
        Self { files: FileList::new(files), compression: None }
    }

    /// Sets the compression of the files. Default: detected from their first bytes.
    #[must_use]
    pub fn compression(self, compression: Compression) -> Self {
        Self { compression: Some(compression), ..self }
    }

    /// Reads the records as Examples with these features.
    pub fn parse(self, features: impl IntoIterator<Item = FeatureSpec>) -> Examples {
        Examples::new(self, features.into_iter().collect())
    }

    /// Returns the features of the first records, those in the first megabyte of the first file, with their types and
    /// sorted by name.
    ///
    /// # Errors
    /// When the file cannot be read, or the records are no Examples.
    pub fn feature_kinds(&self) -> Result<Vec<(String, FeatureKind)>> {
        let Some(batch) = self.open(0, PartPosition::START)?.read(1 << 16)? else { return Ok(Vec::new()) };
        let mut kinds = BTreeMap::new();
        for record in batch.bytes("record")?.iter() {
            let example = read_any_example(record).map_err(|error| error.at(self.part_name(0)))?;
            let found = example.features.into_iter().filter_map(|(name, feature)| Some((name, feature.kind()?)));
            kinds.extend(found);
        }
        Ok(kinds.into_iter().collect())
    }

    pub(super) fn open_file(&self, part: usize, from: PartPosition) -> Result<RecordFile> {
        RecordFile::open(&self.part_name(part), self.compression, from)
    }
}

impl Source for Records {
    fn parts(&self) -> Result<usize> {
        Ok(self.files.list()?.len())
    }

    fn open(&self, part: usize, from: PartPosition) -> Result<Box<dyn Reader>> {
        let file = self.open_file(part, from)?;
        Ok(Box::new(RawReader { file, schema: Arc::new(Schema::new(["record"])?), pending: None }))
    }

    fn kind(&self) -> &str {
        "tfrecord"
    }

    fn part_name(&self, part: usize) -> String {
        self.files.name(part)
    }
}

/// One file of records. `byte` of its position is the next record's first byte in the decompressed file, `row` how many
/// records come before it.
pub(super) struct RecordFile {
    path: String,
    reader: RecordReader<Box<dyn OpenFile>>,
    /// Where `reader` began.
    start: PartPosition,
}

impl RecordFile {
    fn open(path: &str, compression: Option<Compression>, from: PartPosition) -> Result<Self> {
        let mut file = open(path)?;
        let unreadable = || format!("cannot read {path:?}");
        let compression = match compression {
            Some(compression) => compression,
            None => {
                let mut head = Vec::new();
                let read = file.by_ref().take(Compression::DETECT_BYTES as u64).read_to_end(&mut head);
                read.context(Code::DataMissing, unreadable())?;
                Compression::detect(&head)
            }
        };
        // Only a plain file can be entered in its middle.
        let start = if compression == Compression::None { from } else { PartPosition::START };
        let size = file.size().context(Code::DataMissing, unreadable())?;
        if start.byte > size {
            return Err(shorter(path, start.byte));
        }
        file.seek(SeekFrom::Start(start.byte)).context(Code::DataMissing, unreadable())?;
        let options = ReadOptions { compression: Some(compression), ..ReadOptions::default() };
        let reader = RecordReader::with_options(file, &options)?;
        let mut file = Self { path: path.to_owned(), reader, start };
        while file.position().byte < from.byte {
            if file.next()?.is_none() {
                return Err(shorter(path, from.byte));
            }
        }
        Ok(file)
    }

    /// The next record.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>> {
        let place = |path: &str, start: PartPosition, inner: Option<&str>| {
            let inner = inner.unwrap_or_default();
            if start.byte == 0 {
                format!("{path}, {inner}")
            } else {
                format!("{path}, from byte {}: {inner}", start.byte)
            }
        };
        match self.reader.next_record() {
            Ok(record) => Ok(record),
            Err(error) => {
                let at = place(&self.path, self.start, error.place());
                Err(error.at(at))
            }
        }
    }

    pub(super) fn position(&self) -> PartPosition {
        PartPosition {
            byte: self.start.byte + self.reader.offset(),
            row: self.start.row + self.reader.records(),
            line: 0,
        }
    }

    /// The last record's place, for messages.
    pub(super) fn last_place(&self) -> String {
        format!("{}, record {}", self.path, self.position().row.saturating_sub(1))
    }
}

fn shorter(path: &str, from: u64) -> Error {
    Error::new(Code::DataFormat, format!("{path:?} is shorter than it was"))
        .because(format!("reading was to resume at byte {from} of its records"))
        .help("the files must not change between a checkpoint and its restoration")
}

struct RawReader {
    file: RecordFile,
    schema: Arc<Schema>,
    /// An error that is returned after the rows before it.
    pending: Option<Error>,
}

impl Reader for RawReader {
    fn read(&mut self, max_rows: usize) -> Result<Option<Batch>> {
        if let Some(error) = self.pending.take() {
            return Err(error);
        }
        let mut records = Strings::new();
        while records.len() < max_rows.max(1) && records.data().len() < CHUNK {
            match self.file.next() {
                Ok(Some(record)) => records.push(record),
                Ok(None) => break,
                Err(error) if records.is_empty() => return Err(error),
                Err(error) => {
                    self.pending = Some(error);
                    break;
                }
            }
        }
        if records.is_empty() {
            return Ok(None);
        }
        Batch::with_schema(self.schema.clone(), vec![Column::bytes(records)]).map(Some)
    }

    fn position(&self) -> PartPosition {
        self.file.position()
    }
}
