//! Record batches of other programs in this process: data frames of Polars, pandas, DuckDB.
//!
//! They arrive by Arrow's C stream interface, without a copy. Rows are copied when they are read, a chunk at a time. The types of
//! columns and the rules for missing values are those of Parquet files.

mod stream;
#[cfg(test)]
mod tests;

use crate::missing::Fill;
use crate::parquet::convert::{BadRow, column};
use crate::parquet::plan::{ParquetOptions, Wanted, wanted};
use crate::{BadRows, Batch, FillValue, NonFiniteValues, PartPosition, Reader, Schema, Source};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use phalanx_base::{Code, Error, Result};
use std::sync::{Arc, OnceLock};
pub use stream::arrow_stream;

/// The name of the input in messages.
const PLACE: &str = "the Arrow data";

/// Record batches and what to read of them; made by [`arrow_stream`].
#[derive(Clone)]
pub struct ArrowBatches {
    schema: SchemaRef,
    /// None of them is empty.
    batches: Arc<Vec<RecordBatch>>,
    options: ParquetOptions,
    plan: OnceLock<Result<Arc<Plan>>>,
}

/// Made at first use, and then the same for all parts and epochs.
struct Plan {
    wanted: Vec<Wanted>,
    /// Where they are in a record batch.
    at: Vec<usize>,
    schema: Arc<Schema>,
}

impl ArrowBatches {
    fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        let batches = Arc::new(batches.into_iter().filter(|batch| batch.num_rows() > 0).collect());
        Self { schema, batches, options: ParquetOptions::default(), plan: OnceLock::new() }
    }

    fn with(self, change: impl FnOnce(&mut ParquetOptions)) -> Self {
        let mut options = self.options;
        change(&mut options);
        Self { options, plan: OnceLock::new(), ..self }
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// Reads only these columns, and the label.
    #[must_use]
    pub fn select<S: Into<String>>(self, names: impl IntoIterator<Item = S>) -> Self {
        self.with(|options| options.select = Some(names.into_iter().map(Into::into).collect()))
    }

    /// Marks a column as the label.
    #[must_use]
    pub fn label(self, name: impl Into<String>) -> Self {
        self.with(|options| options.label = Some(name.into()))
    }

    /// Makes a missing value of a column an error, as it always is for a label without a default.
    #[must_use]
    pub fn required(self, name: impl Into<String>) -> Self {
        self.with(|options| options.required.push(name.into()))
    }

    /// Sets the value that replaces missing ones in a column, instead of 0 or the empty string.
    #[must_use]
    pub fn default_value(self, name: impl Into<String>, value: impl Into<FillValue>) -> Self {
        let value: Fill = value.into().0;
        self.with(|options| options.defaults.push((name.into(), value)))
    }

    /// Sets what happens to rows that miss a required value. Default: reading stops at the first.
    #[must_use]
    pub fn bad_rows(self, bad_rows: BadRows) -> Self {
        self.with(|options| options.bad_rows = bad_rows)
    }

    /// Sets what happens to NaN and infinite numbers. Default: reading stops at the first.
    #[must_use]
    pub fn non_finite(self, non_finite: NonFiniteValues) -> Self {
        self.with(|options| options.non_finite = non_finite)
    }

    fn plan(&self) -> Result<Arc<Plan>> {
        let make = || {
            let wanted = wanted(&self.schema, &self.options, PLACE)?;
            let at = wanted.iter().filter_map(|wanted| self.schema.index_of(&wanted.name).ok()).collect();
            let mut schema = Schema::new(wanted.iter().map(|wanted| wanted.name.as_str()))?;
            if let Some(label) = &self.options.label {
                schema = schema.with_label(label)?;
            }
            Ok(Arc::new(Plan { wanted, at, schema: Arc::new(schema) }))
        };
        self.plan.get_or_init(make).clone()
    }

    fn open_unchecked(&self, part: usize, from: PartPosition) -> Result<Box<dyn Reader>> {
        let row = usize::try_from(from.row).unwrap_or(usize::MAX);
        let batch = self.batches.get(part).filter(|batch| row <= batch.num_rows()).cloned();
        let batch = batch.ok_or_else(|| {
            Error::new(Code::DataFormat, format!("{PLACE} is shorter than it was"))
                .because(format!("reading was to resume at row {row} of record batch {part}"))
                .help("the data must not change between a checkpoint and its restoration")
        })?;
        let before = self.batches[..part].iter().map(RecordBatch::num_rows).sum();
        Ok(Box::new(ArrowReader {
            plan: self.plan()?,
            batch,
            row,
            part,
            before,
            bad_rows: self.options.bad_rows.clone(),
        }))
    }
}

impl Source for ArrowBatches {
    fn parts(&self) -> Result<usize> {
        self.plan()?;
        if self.batches.is_empty() {
            return Err(Error::new(Code::DataMissing, format!("{PLACE} has no rows")));
        }
        Ok(self.batches.len())
    }

    fn open(&self, part: usize, from: PartPosition) -> Result<Box<dyn Reader>> {
        let reader = self.open_unchecked(part, from)?;
        let source = self.clone();
        let reopen = move |from| source.open_unchecked(part, from);
        Ok(self.options.non_finite.check(reader, part, self.options.nan_is_missing(), reopen))
    }

    fn kind(&self) -> &str {
        "arrow"
    }

    fn part_name(&self, part: usize) -> String {
        format!("record batch {part}")
    }

    fn is_files(&self) -> bool {
        false
    }
}

/// Reads one record batch. `row` of its position is the next row.
struct ArrowReader {
    plan: Arc<Plan>,
    batch: RecordBatch,
    row: usize,
    part: usize,
    /// The rows of the record batches before this one.
    before: usize,
    bad_rows: BadRows,
}

impl ArrowReader {
    /// Returns these rows, and the first of them that is refused.
    fn convert(&self, rows: usize) -> Result<(Batch, Option<(usize, BadRow)>)> {
        let plan = &*self.plan;
        let (mut columns, mut bad) = (Vec::with_capacity(plan.wanted.len()), Vec::new());
        for (index, (wanted, &at)) in plan.wanted.iter().zip(&plan.at).enumerate() {
            columns.push(column(self.batch.column(at).slice(self.row, rows), wanted, index, &mut bad)?);
        }
        let first = bad.into_iter().min_by_key(|(row, _)| *row);
        Ok((Batch::with_schema(Arc::clone(&plan.schema), columns)?, first))
    }
}

impl Reader for ArrowReader {
    fn read(&mut self, max_rows: usize) -> Result<Option<Batch>> {
        loop {
            let rows = (self.batch.num_rows() - self.row).min(max_rows.max(1));
            if rows == 0 {
                return Ok(None);
            }
            let (batch, bad) = self.convert(rows)?;
            let good = bad.as_ref().map_or(rows, |(row, _)| *row);
            if good > 0 {
                self.row += good;
                return Ok(Some(batch.slice(0..good)));
            }
            if let Some((_, bad)) = bad {
                let row = (self.before + self.row) as u64;
                let error = bad.error(&self.plan.wanted).at(format!("{PLACE}, row {row}"));
                self.bad_rows.accept(self.part, row, error)?;
                self.row += 1;
            }
        }
    }

    fn position(&self) -> PartPosition {
        PartPosition { row: self.row as u64, ..PartPosition::START }
    }

    fn last_row(&self) -> Option<String> {
        Some(format!("{PLACE}, row {}", (self.before + self.row).saturating_sub(1)))
    }
}
