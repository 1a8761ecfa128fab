//! Columns that are computed from an input before the steps of a plan run.

use crate::columns::kind::Numeric;
use crate::columns::time::{TimePart, TimeUnit, parse_iso};
use crate::layout::{Rows, in_layout_of};
use phalanx_base::{Code, Error, Result};
use phalanx_data::{Batch, Column, Strings, Values, ValuesView};
use std::sync::Arc;

/// An input of a plan.
#[derive(Clone, PartialEq)]
pub(crate) struct RawInput {
    pub(super) key: Arc<str>,
    pub(super) reading: Reading,
}

/// What is taken from an input.
#[derive(Clone, PartialEq)]
pub(crate) enum Reading {
    Plain,
    /// The values between this delimiter.
    Split(Arc<str>),
    /// The integers between this delimiter.
    SplitIntegers(Arc<str>),
    Time(TimePart, TimeUnit),
    /// The same as a float, NaN if it is missing.
    TimeNumber(TimePart, TimeUnit),
}

impl RawInput {
    /// The input of a numeric column.
    pub(crate) fn of(numeric: &Numeric) -> Self {
        let reading = numeric.time.map_or(Reading::Plain, |(part, unit)| Reading::TimeNumber(part, unit));
        Self { key: numeric.key.clone(), reading }
    }

    /// The derived column; `None` if the input is taken as it is.
    pub(crate) fn derive(&self, batch: &Batch) -> Result<Option<Column>> {
        match &self.reading {
            Reading::Plain => Ok(None),
            Reading::Split(delimiter) => split(batch.column(&self.key)?, delimiter.as_bytes()).map(Some),
            Reading::SplitIntegers(delimiter) => {
                let parts = split(batch.column(&self.key)?, delimiter.as_bytes())?;
                integers(&self.key, &parts).map(Some)
            }
            Reading::Time(part, unit) => time(&self.key, batch.column(&self.key)?, *part, *unit).map(Some),
            Reading::TimeNumber(part, unit) => {
                let column = batch.column(&self.key)?;
                time(&self.key, column, *part, *unit).and_then(|parts| numbers(&self.key, &parts)).map(Some)
            }
        }
    }
}

/// The parts of every text, without empty ones, as ragged rows.
fn split(column: &Column, delimiter: &[u8]) -> Result<Column> {
    let texts = column.as_bytes()?;
    let mut parts = Strings::with_capacity(texts.len() * 2, texts.byte_len());
    let mut splits = Vec::with_capacity(column.rows() + 1);
    splits.push(0);
    let rows = Rows::of(column);
    for row in 0..column.rows() {
        for text in rows.range(row).map(|index| texts.get(index)) {
            each_part(text, delimiter, |part| parts.push(part));
        }
        splits.push(parts.len());
    }
    Column::bytes(parts).with_splits(splits)
}

/// The texts of a column as integers.
fn integers(key: &str, texts: &Column) -> Result<Column> {
    let integer = |text: &[u8]| {
        parse_integer(text).ok_or_else(|| {
            let text = String::from_utf8_lossy(text);
            Error::new(Code::DataRow, format!("the input {key:?} has {text:?} where an integer is expected"))
                .help("correct the row, or check the delimiter of `split`")
        })
    };
    in_layout_of(texts, Values::I64(texts.as_bytes()?.iter().map(integer).collect::<Result<_>>()?))
}

/// Parses an integer with or without spaces around it, as TensorFlow does.
pub(crate) fn parse_integer(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text.trim_ascii()).ok()?.parse().ok()
}

/// Calls `f` with the parts of a text that are not empty.
pub(crate) fn each_part(text: &[u8], delimiter: &[u8], mut f: impl FnMut(&[u8])) {
    let (mut start, mut at) = (0, 0);
    while at + delimiter.len() <= text.len() {
        if &text[at..at + delimiter.len()] == delimiter {
            if at > start {
                f(&text[start..at]);
            }
            at += delimiter.len();
            start = at;
        } else {
            at += 1;
        }
    }
    if start < text.len() {
        f(&text[start..]);
    }
}

/// The part of every timestamp. The empty text and -1 of a dense column are missing values and become -1.
fn time(key: &str, column: &Column, part: TimePart, unit: TimeUnit) -> Result<Column> {
    let is_dense = !column.is_ragged();
    let ids: Vec<i64> = match (column.values(), unit.per_second()) {
        (ValuesView::Bytes(texts), None) => {
            let id = |text: &[u8]| match text {
                [] if is_dense => Ok(-1),
                text => parse_iso(text).map(|seconds| part.of_seconds(seconds)),
            };
            texts.iter().map(id).collect::<Result<_>>()?
        }
        (ValuesView::I64(numbers), Some(per_second)) => {
            let id = |&number: &i64| match number {
                -1 if is_dense => -1,
                number => part.of_seconds(number.div_euclid(per_second)),
            };
            numbers.iter().map(id).collect()
        }
        _ => {
            let what = format!("the input {key:?} holds {}, its timestamps are {}", column.dtype(), unit.dtype());
            return Err(Error::new(Code::DataColumn, what)
                .help("set the unit of the column: seconds, millis or micros for integers, iso for texts"));
        }
    };
    in_layout_of(column, Values::I64(ids))
}

/// The parts of timestamps as numbers, one per row.
fn numbers(key: &str, parts: &Column) -> Result<Column> {
    let (ids, rows) = (parts.as_i64()?, Rows::of(parts));
    let number = |row: usize| match &ids[rows.range(row)] {
        [] | [-1] => Ok(f32::NAN),
        &[part] => Ok(part as f32),
        several => {
            let what = format!("row {row} of the input {key:?} has {} timestamps", several.len());
            Err(Error::new(Code::DataRow, what)
                .because("a numeric column takes one per row")
                .help("use a timestamp_column, which takes any number"))
        }
    };
    Ok(Column::f32((0..rows.len()).map(number).collect::<Result<_>>()?))
}
