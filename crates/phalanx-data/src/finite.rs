//! NaN and infinite numbers in the input: what happens to them, and a reader that finds them.
//!
//! Hot: a chunk is checked a column at a time, without a branch per value. Everything else happens only if a number is
//! not finite.

use crate::{Batch, Column, PartPosition, Reader, ValuesView};
use phalanx_base::{Code, Error, Result};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What a reader does with NaN and infinite numbers: fail (the default), skip the row, read 0, or keep them.
///
/// Clones share their counts: keep one to query how many rows were concerned.
///
/// ```
/// use phalanx_data::{NonFiniteValues, PartPosition, Source, csv};
/// let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("a.csv");
/// std::fs::write(&path, "x,y\n1.5,0\nnan,1\n").unwrap();
/// let floats = || csv(&path).column("x", phalanx_data::DType::F32);
///
/// let mut reader = floats().open(0, PartPosition::START)?;
/// assert_eq!(reader.read(10)?.unwrap().rows(), 1);
/// assert!(reader.read(10).unwrap_err().place().unwrap().ends_with("a.csv, line 3, column \"x\""));
///
/// let skip = NonFiniteValues::skip_rows();
/// let batch = floats().non_finite(skip.clone()).open(0, PartPosition::START)?.read(10)?.unwrap();
/// assert_eq!((batch.f32("x")?, skip.rows()), ([1.5].as_slice(), 1));
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct NonFiniteValues {
    action: Action,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Fail,
    SkipRows,
    Zero,
    Keep,
}

#[derive(Debug, Default)]
struct Seen {
    rows: u64,
    first: Option<Error>,
    /// How far each part has been counted, so that a second epoch does not count its rows again.
    until: HashMap<usize, (u64, u64)>,
}

impl NonFiniteValues {
    fn of(action: Action) -> Self {
        Self { action, seen: Arc::default() }
    }

    /// Ends the reading with an error that names the number, its column and its row.
    #[must_use]
    pub fn fail() -> Self {
        Self::of(Action::Fail)
    }

    /// Skips rows with such numbers, and counts them.
    #[must_use]
    pub fn skip_rows() -> Self {
        Self::of(Action::SkipRows)
    }

    /// Reads such numbers as 0, and counts their rows.
    #[must_use]
    pub fn zero() -> Self {
        Self::of(Action::Zero)
    }

    /// Reads such numbers as they are, as TensorFlow does.
    #[must_use]
    pub fn keep() -> Self {
        Self::of(Action::Keep)
    }

    /// Returns how many different rows were skipped or changed so far.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.seen().rows
    }

    /// Returns the error of the first row that was skipped or changed.
    #[must_use]
    pub fn first(&self) -> Option<Error> {
        self.seen().first.clone()
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the check around a reader of `part`. `reopen` opens the same part again without the check, and `nan_is_missing`
    /// are the columns in which NaN marks a missing value.
    pub(crate) fn check(
        &self,
        reader: Box<dyn Reader>,
        part: usize,
        nan_is_missing: Vec<String>,
        reopen: impl Fn(PartPosition) -> Result<Box<dyn Reader>> + Send + 'static,
    ) -> Box<dyn Reader> {
        if self.action == Action::Keep {
            return reader;
        }
        let policy = self.clone();
        Box::new(FiniteReader { inner: reader, part, policy, nan_is_missing, reopen: Box::new(reopen), pending: None })
    }
}

impl Default for NonFiniteValues {
    fn default() -> Self {
        Self::fail()
    }
}

type Reopen = Box<dyn Fn(PartPosition) -> Result<Box<dyn Reader>> + Send>;

/// A reader whose rows have finite numbers only.
struct FiniteReader {
    inner: Box<dyn Reader>,
    part: usize,
    policy: NonFiniteValues,
    nan_is_missing: Vec<String>,
    reopen: Reopen,
    /// An error that is returned after the rows before it, and where it was found.
    pending: Option<(Error, PartPosition)>,
}

impl FiniteReader {
    /// The first row and column of a batch with such a number.
    fn find(&self, batch: &Batch) -> Option<(usize, usize)> {
        let mut first: Option<(usize, usize)> = None;
        for (index, (name, column)) in batch.iter().enumerate() {
            let ValuesView::F32(values) = column.values() else { continue };
            if all_finite(values) {
                continue;
            }
            let nan_is_fine = self.nan_is_missing.iter().any(|known| **known == **name);
            let place = values.iter().position(|value| is_wrong(*value, nan_is_fine));
            let row = place.map(|place| row_of(column, place));
            first = match (first, row) {
                (Some((before, _)), Some(row)) if row >= before => first,
                (_, Some(row)) => Some((row, index)),
                (_, None) => first,
            };
        }
        first
    }

    /// What is returned instead of a batch that began at `from` and has such a number; `None` if nothing is left of it.
    #[cold]
    fn handle(&mut self, batch: &Batch, from: PartPosition, (row, column): (usize, usize)) -> Result<Option<Batch>> {
        let (place, error) = self.locate(batch, from, row, column)?;
        if self.policy.action == Action::Fail {
            if row == 0 {
                return Err(error);
            }
            self.pending = Some((error, place));
            return Ok(Some(batch.slice(0..row)));
        }
        let wrong = self.wrong_rows(batch);
        self.count(wrong.iter().filter(|&&wrong| wrong).count(), from, error);
        if self.policy.action == Action::SkipRows {
            let kept = batch.retain(&wrong.iter().map(|wrong| !wrong).collect::<Vec<_>>());
            return Ok((!kept.is_empty()).then_some(kept));
        }
        let columns = batch.iter().map(|(name, column)| self.zeroed(name, column));
        Batch::with_schema(batch.schema().clone(), columns.collect::<Result<_>>()?).map(Some)
    }

    /// Reads the part again up to a row, to learn its place.
    fn locate(&self, batch: &Batch, from: PartPosition, row: usize, column: usize) -> Result<(PartPosition, Error)> {
        let (name, column) = (&batch.names()[column], &batch.columns()[column]);
        let nan_is_fine = self.nan_is_missing.iter().any(|known| **known == **name);
        let values = column.slice(row..row + 1);
        let value = values.as_f32()?.iter().copied().find(|value| is_wrong(*value, nan_is_fine)).unwrap_or(f32::NAN);
        let (position, place) = place_of((self.reopen)(from)?, row)?;
        let error = Error::new(Code::DataRow, format!("{value} is not a finite number"))
            .at(format!("{place}, column {name:?}"))
            .because("a model computes NaN from such a number, and its metrics are NaN too")
            .help("correct the row, or set non_finite to skip such rows or to read 0; where NaN marks a missing value of a CSV file, set na_value");
        Ok((position, error))
    }

    fn wrong_rows(&self, batch: &Batch) -> Vec<bool> {
        let mut wrong = vec![false; batch.rows()];
        for (name, column) in batch.iter() {
            let ValuesView::F32(values) = column.values() else { continue };
            let nan_is_fine = self.nan_is_missing.iter().any(|known| **known == **name);
            for (place, &value) in values.iter().enumerate() {
                if is_wrong(value, nan_is_fine) {
                    wrong[row_of(column, place)] = true;
                }
            }
        }
        wrong
    }

    fn count(&self, rows: usize, from: PartPosition, error: Error) {
        let end = self.inner.position();
        let mut seen = self.policy.seen();
        let until = seen.until.entry(self.part).or_default();
        if (from.byte, from.row) >= *until {
            *until = (end.byte, end.row);
            seen.rows += rows as u64;
            seen.first.get_or_insert(error);
        }
    }

    fn zeroed(&self, name: &str, column: &Column) -> Result<Column> {
        let ValuesView::F32(values) = column.values() else { return Ok(column.clone()) };
        let nan_is_fine = self.nan_is_missing.iter().any(|known| known == name);
        let finite = values.iter().map(|&value| if is_wrong(value, nan_is_fine) { 0.0 } else { value }).collect();
        let made = Column::f32(finite);
        let made = match column.row_shape() {
            [] => made,
            shape => made.with_row_shape(shape.to_vec())?,
        };
        match column.splits() {
            Some(splits) => made.with_splits(splits.iter().map(|split| split - splits[0]).collect()),
            None => Ok(made),
        }
    }
}

impl Reader for FiniteReader {
    fn read(&mut self, max_rows: usize) -> Result<Option<Batch>> {
        if let Some((error, _)) = self.pending.take() {
            return Err(error);
        }
        loop {
            let from = self.inner.position();
            let Some(batch) = self.inner.read(max_rows)? else { return Ok(None) };
            match self.find(&batch) {
                None => return Ok(Some(batch)),
                Some(first) => {
                    if let Some(rows) = self.handle(&batch, from, first)? {
                        return Ok(Some(rows));
                    }
                }
            }
        }
    }

    fn position(&self) -> PartPosition {
        // A reader that resumes here must find the row too.
        self.pending.as_ref().map_or_else(|| self.inner.position(), |(_, place)| *place)
    }

    fn last_row(&self) -> Option<String> {
        self.inner.last_row()
    }
}

/// Reads on to row `row` and returns the position before it and its place, for a message.
pub(crate) fn place_of(mut reader: Box<dyn Reader>, row: usize) -> Result<(PartPosition, String)> {
    let mut left = row;
    while left > 0 {
        match reader.read(left)? {
            Some(batch) => left -= batch.rows().min(left),
            None => break,
        }
    }
    let position = reader.position();
    reader.read(1)?;
    Ok((position, reader.last_row().unwrap_or_else(|| "the input".to_owned())))
}

/// The row of a column that its `place`-th value belongs to.
fn row_of(column: &Column, place: usize) -> usize {
    match column.splits() {
        // The last row that begins at or before the item; empty rows begin there too.
        Some(splits) => {
            let item = splits[0] + place.checked_div(column.width()).unwrap_or(0);
            splits.partition_point(|&split| split <= item).saturating_sub(1)
        }
        None => place.checked_div(column.width()).unwrap_or(0),
    }
}

fn is_wrong(value: f32, nan_is_fine: bool) -> bool {
    !(value.is_finite() || nan_is_fine && value.is_nan())
}

/// Whether no exponent has all bits set. Without a branch per value, so that it becomes vector code.
fn all_finite(values: &[f32]) -> bool {
    const EXPONENT: u32 = 0x7f80_0000;
    !values.chunks(1024).any(|chunk| {
        chunk.iter().fold(0_u32, |wrong, value| wrong | u32::from(value.to_bits() & EXPONENT == EXPONENT)) != 0
    })
}
