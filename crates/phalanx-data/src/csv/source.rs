//! CSV files as a source.

use super::options::{CsvOptions, Given};
use super::plan::Plan;
use super::reader::CsvReader;
use crate::{BadRows, DType, Files, FillValue, NonFiniteValues, PartPosition, Reader, Source};
use phalanx_base::Result;
use std::sync::{Arc, OnceLock};

/// CSV files and how to read them; made by [`csv`](crate::csv()).
#[derive(Clone, Debug)]
pub struct Csv {
    files: Files,
    options: CsvOptions,
    /// Made at first use; the same for all parts and epochs.
    plan: OnceLock<Result<Arc<Plan>>>,
}

impl Csv {
    pub(super) fn new(files: Files, options: CsvOptions) -> Self {
        Self { files, options, plan: OnceLock::new() }
    }

    fn with(self, change: impl FnOnce(&mut CsvOptions)) -> Self {
        let mut options = self.options;
        change(&mut options);
        Self::new(self.files, options)
    }

    /// Sets the names of the columns. The header of the files, if any, is then skipped.
    #[must_use]
    pub fn names<S: Into<String>>(self, names: impl IntoIterator<Item = S>) -> Self {
        self.with(|options| options.names = Some(names.into_iter().map(Into::into).collect()))
    }

    /// Sets whether the first row of every file is a header. Default: true.
    #[must_use]
    pub fn header(self, header: bool) -> Self {
        self.with(|options| options.header = header)
    }

    /// Sets the type of a column: float32, int64 or string. Other types are inferred from the first rows.
    #[must_use]
    pub fn column(self, name: impl Into<String>, dtype: DType) -> Self {
        self.with(|options| options.columns.push((name.into(), Given::Type(dtype))))
    }

    /// Sets the value that replaces missing ones in a column, instead of 0 or the empty string; also sets its type. With NaN
    /// as the default, NaN in the file counts as missing too.
    #[must_use]
    pub fn default_value(self, name: impl Into<String>, value: impl Into<FillValue>) -> Self {
        self.with(|options| options.columns.push((name.into(), Given::Default(value.into().0))))
    }

    /// Makes a missing value of a column an error, as it always is for a label without a default.
    #[must_use]
    pub fn required(self, name: impl Into<String>) -> Self {
        self.with(|options| options.columns.push((name.into(), Given::Required)))
    }

    /// Sets the byte that separates fields. Default: a comma.
    #[must_use]
    pub fn delimiter(self, delimiter: u8) -> Self {
        self.with(|options| options.delimiter = delimiter)
    }

    /// Sets whether `"` quotes fields. Default: true.
    #[must_use]
    pub fn quotes(self, quotes: bool) -> Self {
        self.with(|options| options.quotes = quotes)
    }

    /// Sets whether spaces around strings are removed (around numbers they are always ignored). Default: false, as in
    /// TensorFlow.
    #[must_use]
    pub fn trim(self, trim: bool) -> Self {
        self.with(|options| options.trim = trim)
    }

    /// Sets a text that means "missing", as an empty field does: `?`, `NA`.
    #[must_use]
    pub fn na_value(self, text: impl Into<String>) -> Self {
        self.na_values([text])
    }

    /// Sets several texts that mean "missing".
    #[must_use]
    pub fn na_values<S: Into<String>>(self, texts: impl IntoIterator<Item = S>) -> Self {
        self.with(|options| options.na = texts.into_iter().map(|text| text.into().into_bytes()).collect())
    }

    /// Skips lines that begin with this byte.
    #[must_use]
    pub fn comment(self, byte: u8) -> Self {
        self.with(|options| options.comment = Some(byte))
    }

    /// Reads only these columns (and the label); other fields are not parsed.
    #[must_use]
    pub fn select<S: Into<String>>(self, names: impl IntoIterator<Item = S>) -> Self {
        self.with(|options| options.select = Some(names.into_iter().map(Into::into).collect()))
    }

    /// Marks a column as the label.
    #[must_use]
    pub fn label(self, name: impl Into<String>) -> Self {
        self.with(|options| options.label = Some(name.into()))
    }

    /// Sets what happens to rows that do not parse. Default: reading stops at the first.
    #[must_use]
    pub fn bad_rows(self, bad_rows: BadRows) -> Self {
        self.with(|options| options.bad_rows = bad_rows)
    }

    /// Sets what happens to NaN and infinite numbers. Default: reading stops at the first.
    #[must_use]
    pub fn non_finite(self, non_finite: NonFiniteValues) -> Self {
        self.with(|options| options.non_finite = non_finite)
    }

    /// Sets how many rows types are inferred from. Default: 100.
    #[must_use]
    pub fn infer_rows(self, rows: usize) -> Self {
        self.with(|options| options.infer_rows = rows.max(1))
    }

    /// Returns the columns and their types.
    ///
    /// # Errors
    /// When files are missing, or the header or the first rows do not parse.
    pub fn columns(&self) -> Result<Vec<(String, DType)>> {
        Ok(self.plan()?.wanted.iter().map(|wanted| (wanted.name.clone(), wanted.dtype)).collect())
    }

    fn plan(&self) -> Result<Arc<Plan>> {
        let make = || Plan::new(self.files.list()?, self.options.clone()).map(Arc::new);
        self.plan.get_or_init(make).clone()
    }
}

impl Source for Csv {
    fn parts(&self) -> Result<usize> {
        Ok(self.plan()?.files.len())
    }

    fn open(&self, part: usize, from: PartPosition) -> Result<Box<dyn Reader>> {
        let plan = self.plan()?;
        let reader = CsvReader::open(plan.clone(), part, from)?;
        let nan_is_missing = plan.options.nan_is_missing();
        let reopen = {
            let plan = plan.clone();
            move |from| Ok(Box::new(CsvReader::open(plan.clone(), part, from)?) as Box<dyn Reader>)
        };
        Ok(plan.options.non_finite.check(Box::new(reader), part, nan_is_missing, reopen))
    }

    fn kind(&self) -> &str {
        "csv"
    }

    fn part_name(&self, part: usize) -> String {
        self.plan().ok().and_then(|plan| plan.files.get(part).cloned()).unwrap_or_else(|| format!("file {part}"))
    }
}
