//! Reads one CSV file into batches.

use super::builder::{Builder, Refused};
use super::number::parse_f32;
use super::plan::{Plan, likely_delimiter};
use super::scan::{Found, Scan};
use crate::files::InputFile;
use crate::missing::missing_value;
use crate::{Batch, DType, PartPosition, Reader};
use phalanx_base::{Code, Error, Result};
use std::sync::Arc;

/// How much text becomes one batch at most.
const CHUNK: u64 = 1 << 20;
/// A field that is not read.
const UNWANTED: usize = usize::MAX;

/// The rows of one file. `byte` of its position is the next row's first byte (of the decompressed file), `line` its
/// line; `row` counts nothing.
pub(super) struct CsvReader {
    plan: Arc<Plan>,
    part: usize,
    scan: Scan,
    sink: Sink,
    /// Rows of the batch under way.
    rows: usize,
    /// How many lines the last row had.
    last_lines: u64,
    /// An error that is returned after the rows before it, and where it was found.
    pending: Option<(Error, PartPosition)>,
    ended: bool,
}

/// Where fields go.
struct Sink {
    builders: Vec<Builder>,
    /// Which builder each field of a row goes to.
    targets: Vec<usize>,
    na: Vec<Vec<u8>>,
    /// The row's first field that was refused, with its text.
    refused: Option<(usize, Refused, Vec<u8>)>,
}

impl CsvReader {
    pub(super) fn open(plan: Arc<Plan>, part: usize, from: PartPosition) -> Result<Self> {
        let mut scan = Scan::open_at(&plan.files[part], &plan.options, from)?;
        if from.byte == 0 && plan.options.header {
            check_header(&mut scan, &plan)?;
        }
        let mut targets = vec![UNWANTED; plan.names.len()];
        for (builder, wanted) in plan.wanted.iter().enumerate() {
            targets[wanted.field] = builder;
        }
        let builders = plan.wanted.iter().map(|wanted| Builder::new(wanted, plan.options.trim)).collect();
        let sink = Sink { builders, targets, na: plan.options.na.clone(), refused: None };
        Ok(Self { plan, part, scan, sink, rows: 0, last_lines: 1, pending: None, ended: false })
    }

    /// Reads a row into the builders; false at the end.
    #[inline]
    fn read_row(&mut self) -> Result<bool> {
        let offset = self.scan.offset();
        let (rows, several) = (self.rows, self.plan.names.len() > 1);
        let found = self.scan.row(several, &mut self.sink, Sink::field, |sink| sink.roll_back(rows))?;
        let problem = match found {
            Found::End => return Ok(false),
            Found::Row { fields, lines } if self.sink.refused.is_none() && fields == self.plan.names.len() => {
                self.rows += 1;
                self.last_lines = lines;
                return Ok(true);
            }
            Found::Row { fields, lines } if fields != self.plan.names.len() => {
                self.wrong_count(fields, self.scan.line() - lines, offset)
            }
            Found::Row { lines, .. } => self.refused(self.scan.line() - lines),
            Found::Broken { field, why } => self.broken(field, why, self.scan.line() - 1),
        };
        self.sink.roll_back(rows);
        self.plan.options.bad_rows.accept(self.part, offset, problem)?;
        Ok(true)
    }

    #[inline]
    fn place_of_next(&self) -> PartPosition {
        PartPosition { byte: self.scan.offset(), row: 0, line: self.scan.line() }
    }

    fn take(&mut self) -> Result<Batch> {
        self.rows = 0;
        let columns = self.sink.builders.iter_mut().map(Builder::take).collect();
        Batch::with_schema(self.plan.schema.clone(), columns)
    }

    fn place(&self, line: u64, field: usize) -> String {
        let name = self.plan.names.get(field).map_or(String::new(), |name| format!(", column {name:?}"));
        format!("{}, line {line}{name}", self.scan.path())
    }

    fn refused(&mut self, line: u64) -> Error {
        let Some((field, refused, text)) = self.sink.refused.take() else {
            return Error::new(Code::Internal, "a row was refused without a reason");
        };
        let name = &self.plan.names[field];
        let error = match refused {
            Refused::Missing => {
                let error = missing_value(name, self.plan.options.label.as_ref() == Some(name));
                if text.is_empty() { error } else { error.because(format!("the field reads {}", shown(&text))) }
            }
            Refused::Type(dtype) => wrong_type(&text, dtype, name),
        };
        error.at(self.place(line, field))
    }

    fn wrong_count(&self, fields: usize, line: u64, offset: u64) -> Error {
        let wanted = self.plan.names.len();
        let at = if fields < wanted { fields } else { usize::MAX };
        let delimiter = char::from(self.plan.options.delimiter);
        let other = self.line_at(offset).and_then(|line| likely_delimiter(&line, wanted..=wanted));
        let help = match other.filter(|&other| other != delimiter) {
            Some(other) => format!("separated by {other:?}, the row has {wanted} fields: set the delimiter to that"),
            None if fields > wanted => {
                format!("put a value that contains {delimiter:?} in quotes, correct the row, or skip bad rows")
            }
            None => "correct the row or the delimiter, or skip bad rows".to_owned(),
        };
        Error::new(Code::DataRow, format!("a row has {fields} fields, not {wanted}"))
            .at(self.place(line, at))
            .because(format!("the columns are separated by {delimiter:?}"))
            .help(help)
    }

    /// The text of the row that begins at or after `offset`, for a message.
    fn line_at(&self, offset: u64) -> Option<Vec<u8>> {
        let mut text = vec![0; 4 << 10];
        let count = InputFile::open(self.scan.path(), offset).and_then(|mut file| file.fill(&mut text)).ok()?;
        let ends = |byte: &u8| matches!(byte, b'\n' | b'\r');
        text[..count].split(ends).find(|line| !line.is_empty()).map(<[u8]>::to_vec)
    }

    fn broken(&self, field: usize, why: &str, line: u64) -> Error {
        Error::new(Code::DataRow, "a row's quotes are wrong")
            .at(self.place(line, field))
            .because(why)
            .help("correct the row, set `quotes` to false if quotes are part of the text, or skip bad rows")
    }
}

impl Reader for CsvReader {
    fn read(&mut self, max_rows: usize) -> Result<Option<Batch>> {
        let mut until = self.scan.offset() + CHUNK;
        while !self.ended && self.pending.is_none() && self.rows < max_rows.max(1) {
            if self.scan.offset() >= until {
                if self.rows > 0 {
                    break;
                }
                // A megabyte of rows that were all skipped.
                until = self.scan.offset() + CHUNK;
            }
            let place = self.place_of_next();
            match self.read_row() {
                Ok(more) => self.ended = !more,
                Err(error) => self.pending = Some((error, place)),
            }
        }
        if self.rows > 0 {
            return self.take().map(Some);
        }
        match self.pending.take() {
            Some((error, _)) => {
                self.ended = true;
                Err(error)
            }
            None => Ok(None),
        }
    }

    fn position(&self) -> PartPosition {
        // A reader that resumes here must find the bad row too.
        self.pending.as_ref().map_or_else(|| self.place_of_next(), |(_, place)| *place)
    }

    fn last_row(&self) -> Option<String> {
        Some(format!("{}, line {}", self.scan.path(), self.scan.line() - self.last_lines))
    }
}

impl Sink {
    #[inline]
    fn field(&mut self, field: usize, bytes: &[u8]) {
        let Some(&target) = self.targets.get(field) else { return };
        let Some(builder) = self.builders.get_mut(target) else { return };
        if let Err(refused) = builder.push(bytes, &self.na) {
            self.refuse(field, refused, bytes);
        }
    }

    #[cold]
    fn refuse(&mut self, field: usize, refused: Refused, bytes: &[u8]) {
        if self.refused.is_none() {
            self.refused = Some((field, refused, bytes[..bytes.len().min(SHOWN + 8)].to_vec()));
        }
    }

    #[cold]
    fn roll_back(&mut self, rows: usize) {
        self.refused = None;
        self.builders.iter_mut().for_each(|builder| builder.truncate(rows));
    }
}

const SHOWN: usize = 80;

/// A field's text for a message: not too long, and readable whatever it holds.
fn shown(text: &[u8]) -> String {
    let lossy = String::from_utf8_lossy(text);
    let mut short: String = lossy.chars().take(SHOWN).collect();
    if short.len() < lossy.len() {
        short.push('…');
    }
    format!("{short:?}")
}

/// Texts that often stand for a missing value.
const MARKERS: [&str; 14] =
    ["?", "-", "--", ".", "\\N", "na", "n/a", "nan", "nil", "none", "null", "#n/a", "<na>", "missing"];

/// The error for a field that is not of its column's type, with the setting that probably helps.
fn wrong_type(text: &[u8], dtype: DType, name: &str) -> Error {
    let error = Error::new(Code::DataRow, format!("{} is not a valid {dtype}", shown(text)));
    let trimmed = text.trim_ascii();
    let digits = trimmed.strip_prefix(b"-").unwrap_or(trimmed);
    let is_marker = MARKERS.iter().any(|marker| trimmed.eq_ignore_ascii_case(marker.as_bytes()));
    if trimmed.is_empty() {
        return error.because(format!("column {name:?} is {dtype}")).help(
            "set trim, which makes a field of spaces a missing value; otherwise correct the row, or skip bad rows",
        );
    }
    if is_marker {
        return error.because(format!("column {name:?} is {dtype}")).help(format!(
            "if it marks a missing value, set na_value to {}; otherwise correct the row, or skip bad rows",
            shown(text)
        ));
    }
    if dtype == DType::I64 && !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) {
        return error
            .because(format!("int64 ends at {}", i64::MAX))
            .help(format!("read column {name:?} as string (hash_bucket and vocabulary columns accept it)"));
    }
    let other = if dtype == DType::I64 && parse_f32(text).is_some() { "float32 or string" } else { "string" };
    error
        .because(format!("column {name:?} is {dtype}"))
        .help(format!("correct the row, give the column another type ({other}), or skip bad rows"))
}

fn check_header(scan: &mut Scan, plan: &Plan) -> Result<()> {
    let names = scan.header()?;
    let differ = |why: String| {
        Err(Error::new(Code::DataColumn, format!("{:?} has other columns than {:?}", scan.path(), plan.files[0]))
            .because(why)
            .help("read files of different columns on their own, or give them one header"))
    };
    if plan.options.names.is_some() {
        // Given names stand above the header; only their number can be wrong.
        let (found, wanted) = (names.len(), plan.names.len());
        return if found == wanted {
            Ok(())
        } else {
            differ(format!("its header has {found} names, {wanted} are given"))
        };
    }
    if names == plan.names {
        return Ok(());
    }
    let missing: Vec<&String> = plan.names.iter().filter(|name| !names.contains(name)).collect();
    let extra: Vec<&String> = names.iter().filter(|name| !plan.names.contains(name)).collect();
    if missing.is_empty() && extra.is_empty() {
        return differ(format!("its header has them in another order: {names:?}"));
    }
    differ(format!("missing are {missing:?}, new are {extra:?}"))
}
