//! Predictions as text, JSON lines, CSV or Parquet, in a file or on standard output.

use crate::rows_json;
use phalanx_base::{Code, Context, Error, Result};
use phalanx_cluster::Json;
use phalanx_data::{Batch, Column, ParquetWriter, ValuesView};
use phalanx_storage::{Dir, StagedFile};
use std::io::{ErrorKind, Write};
use std::path::Path;

/// The form of predictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PredictionFormat {
    /// A line per row for people: the class and its probabilities, or the numbers.
    Text,
    /// A JSON object per row, with TensorFlow's names.
    JsonLines,
    /// A heading and a line per row. A column of several values is one field per value: `probabilities_0`, ….
    Csv,
    /// A Parquet file. A column of several values is a list.
    Parquet,
}

impl PredictionFormat {
    /// Returns the format that the name of a file suggests.
    #[must_use]
    pub fn of_file(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "csv" => Some(Self::Csv),
            "jsonl" | "ndjson" | "json" => Some(Self::JsonLines),
            "parquet" => Some(Self::Parquet),
            "txt" => Some(Self::Text),
            _ => None,
        }
    }
}

/// Columns that are the same in every row; CSV and Parquet leave them out.
const CONSTANT: [&str; 2] = ["all_class_ids", "all_classes"];

/// Writes predictions. A file appears under its name only when it is complete.
pub struct PredictionWriter {
    format: PredictionFormat,
    /// Whether the first column is an id.
    has_id: bool,
    out: Output,
    /// The CSV heading was written.
    begun: bool,
}

enum Output {
    Standard,
    File(StagedFile, Target),
    Parquet(Box<ParquetWriter<StagedFile>>, Target),
}

/// Where a staged file will be published.
struct Target {
    dir: Dir,
    name: String,
}

impl PredictionWriter {
    /// Creates a writer to a file, or to standard output without one. With `has_id`, the first column of the predictions is
    /// the id of the rows.
    ///
    /// # Errors
    /// If the file cannot be created, or Parquet is to be written to standard output.
    pub fn new(format: PredictionFormat, path: Option<&Path>, has_id: bool) -> Result<Self> {
        let out = match path {
            None if format == PredictionFormat::Parquet => {
                return Err(Error::new(Code::Flags, "Parquet is not written to standard output")
                    .because("a file that is cut off would look whole")
                    .help("name a file: --output predictions.parquet"));
            }
            None => Output::Standard,
            Some(path) => {
                let (staged, target) = stage(path)?;
                match format {
                    PredictionFormat::Parquet => Output::Parquet(Box::new(ParquetWriter::new(staged)), target),
                    _ => Output::File(staged, target),
                }
            }
        };
        Ok(Self { format, has_id, out, begun: false })
    }

    /// Appends the predictions of a batch.
    ///
    /// # Errors
    /// If they cannot be written. A closed standard output, as with `| head`, is [`Code::Terminated`].
    pub fn write(&mut self, batch: &Batch) -> Result<()> {
        let text = match self.format {
            PredictionFormat::Text => lines(rows_json(batch).map(|row| text_line(&row, self.has_id))),
            PredictionFormat::JsonLines => {
                lines(rows_json(batch).map(|row| with_plain_id(row, self.has_id).to_string()))
            }
            PredictionFormat::Csv => self.csv(batch),
            PredictionFormat::Parquet => Vec::new(),
        };
        match &mut self.out {
            Output::Standard => {
                let mut out = std::io::stdout().lock();
                out.write_all(&text).and_then(|()| out.flush()).map_err(|error| {
                    let code = match error.kind() {
                        ErrorKind::BrokenPipe => Code::Terminated,
                        _ => Code::StorageWrite,
                    };
                    Error::new(code, "standard output cannot be written").because(error)
                })
            }
            Output::File(staged, target) => staged.write_all(&text).map_err(|error| target.not_written(&error)),
            Output::Parquet(writer, _) => writer.write(&changing(batch)?),
        }
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// If the file cannot be completed; then there is none.
    pub fn finish(self) -> Result<()> {
        let (staged, target) = match self.out {
            Output::Standard => return Ok(()),
            Output::File(staged, target) => (staged, target),
            Output::Parquet(writer, target) => (writer.finish()?, target),
        };
        target.dir.publish(&staged.finish()?.name, &target.name)
    }

    fn csv(&mut self, batch: &Batch) -> Vec<u8> {
        let columns: Vec<(&str, &Column)> =
            batch.iter().map(|(name, column)| (&**name, column)).filter(|(name, _)| !CONSTANT.contains(name)).collect();
        let mut out = Vec::new();
        if !std::mem::replace(&mut self.begun, true) {
            let names = columns.iter().flat_map(|(name, column)| match column.width() {
                1 => vec![(*name).to_owned()],
                width => (0..width).map(|at| format!("{name}_{at}")).collect(),
            });
            csv_line(&mut out, names.map(String::into_bytes));
        }
        for row in 0..batch.rows() {
            csv_line(&mut out, columns.iter().flat_map(|(_, column)| fields(column.row(row))));
        }
        out
    }
}

impl Target {
    fn not_written(&self, error: &std::io::Error) -> Error {
        let what = format!("{}/{} cannot be written", self.dir.location(), self.name);
        Error::new(Code::StorageWrite, what)
            .because(error)
            .help("free space or name another --output; nothing is left behind")
    }
}

/// Begins a file beside `path`, so that giving it its name is atomic.
fn stage(path: &Path) -> Result<(StagedFile, Target)> {
    let what = || format!("{} cannot be written", path.display());
    let name = path.file_name().and_then(|name| name.to_str()).filter(|_| !path.is_dir());
    let Some(name) = name else {
        return Err(Error::new(Code::Flags, what()).because("it names no file").help("name a file with --output"));
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(Error::new(Code::Flags, what())
            .because(format!("there is no folder {}", folder.display()))
            .help("create it, or name another file with --output"));
    }
    let folder = folder.canonicalize().context(Code::StorageWrite, what())?;
    let target = Target { dir: Dir::local(&folder), name: name.to_owned() };
    Ok((target.dir.stage(name)?, target))
}

fn lines(rows: impl Iterator<Item = String>) -> Vec<u8> {
    let mut text = String::new();
    for row in rows {
        text += &row;
        text.push('\n');
    }
    text.into_bytes()
}

/// The columns that differ between rows.
fn changing(batch: &Batch) -> Result<Batch> {
    let names: Vec<&str> = batch.names().iter().map(|name| &**name).filter(|name| !CONSTANT.contains(name)).collect();
    batch.select(&names)
}

/// A row whose id, its first entry, is a value instead of a list of one.
fn with_plain_id(row: Json, has_id: bool) -> Json {
    let Json::Object(mut entries) = row else { return row };
    if let (true, Some((_, value))) = (has_id, entries.first_mut())
        && let Json::List(items) = value
        && items.len() == 1
    {
        *value = items.remove(0);
    }
    Json::Object(entries)
}

/// A prediction as text: the id, if there is one; then the class and its probabilities, or the numbers.
fn text_line(row: &Json, has_id: bool) -> String {
    let Json::Object(entries) = row else { return row.to_string() };
    let shown = |item: &Json| item.as_str().map_or_else(|| item.to_string(), str::to_owned);
    let all = |items: &[Json]| items.iter().map(shown).collect::<Vec<_>>().join(" ");
    let of = |value: Option<&(String, Json)>| match value {
        Some((_, Json::List(items))) => all(items),
        _ => String::new(),
    };
    let list = |name: &str| of(entries.iter().skip(usize::from(has_id)).find(|(key, _)| key == name));
    let id = if has_id { format!("{}\t", of(entries.first())) } else { String::new() };
    match list("classes").as_str() {
        "" => id + &list("predictions"),
        classes => format!("{id}{classes}\tprobabilities {}", list("probabilities")),
    }
}

fn fields(values: ValuesView<'_>) -> Vec<Vec<u8>> {
    match values {
        // As f32, whose shortest digits are fewer than those of the same f64.
        ValuesView::F32(values) => values.iter().map(|value| format!("{value:?}").into_bytes()).collect(),
        ValuesView::I64(values) => values.iter().map(|value| value.to_string().into_bytes()).collect(),
        ValuesView::U8(values) => values.iter().map(|value| value.to_string().into_bytes()).collect(),
        ValuesView::Bytes(values) => values.iter().map(<[u8]>::to_vec).collect(),
    }
}

/// Appends a line; fields are quoted where RFC 4180 demands it.
fn csv_line(out: &mut Vec<u8>, fields: impl Iterator<Item = Vec<u8>>) {
    for (at, field) in fields.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        if !field.iter().any(|byte| matches!(byte, b',' | b'"' | b'\n' | b'\r')) {
            out.extend(field);
            continue;
        }
        out.push(b'"');
        for byte in field {
            out.extend(if byte == b'"' { &b"\"\""[..] } else { std::slice::from_ref(&byte) });
        }
        out.push(b'"');
    }
    out.push(b'\n');
}
