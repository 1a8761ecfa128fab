//! The logs of every epoch as CSV.

use super::{Callback, FitContext, written};
use crate::fit::Logs;
use phalanx_base::{Code, Context, Result};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

/// Keras' `CSVLogger`: one line per epoch, columns sorted by name, `NA` for missing values. As in Keras, there are
/// `val_` columns even if the first epoch is not validated.
///
/// ```
/// use phalanx_train::fit::{Fit, callbacks::CsvLogger};
/// let fit = Fit::epochs(20).callback(CsvLogger::new("history.csv"));
/// # let _ = fit;
/// ```
#[derive(Debug)]
pub struct CsvLogger {
    path: PathBuf,
    separator: char,
    append: bool,
    file: Option<File>,
    columns: Vec<String>,
}

impl CsvLogger {
    /// Writes to this file, which is truncated first.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), separator: ',', append: false, file: None, columns: Vec::new() }
    }

    /// Sets the column separator; `,` by default.
    #[must_use]
    pub fn separator(mut self, separator: char) -> Self {
        self.separator = separator;
        self
    }

    /// Appends to an existing file.
    #[must_use]
    pub fn append(mut self) -> Self {
        self.append = true;
        self
    }

    fn write(&mut self, cells: impl Iterator<Item = String>) -> Result<()> {
        let line = cells.collect::<Vec<_>>().join(&self.separator.to_string());
        let Some(file) = &mut self.file else { return Ok(()) };
        writeln!(file, "{line}").context(Code::StorageWrite, format!("{} cannot be written", self.path.display()))
    }
}

impl Callback for CsvLogger {
    fn on_train_begin(&mut self, cx: &mut FitContext<'_>) -> Result<()> {
        if !cx.should_checkpoint() {
            return Ok(());
        }
        let mut options = OpenOptions::new();
        options.create(true).write(true).append(self.append).truncate(!self.append);
        let wrong = || format!("{} cannot be written", self.path.display());
        let file = options.open(&self.path).context(Code::StorageWrite, wrong())?;
        let old = file.metadata().context(Code::StorageWrite, wrong())?.len();
        self.columns = if old > 0 { first_line(&self.path, self.separator)? } else { Vec::new() };
        self.file = Some(file);
        Ok(())
    }

    fn on_epoch_end(&mut self, _: &mut FitContext<'_>, epoch: usize, logs: &mut Logs) -> Result<()> {
        if self.columns.is_empty() {
            self.columns = logs.iter().map(|(name, _)| name.to_owned()).collect();
            self.columns.sort();
            if !self.columns.iter().any(|name| name.starts_with("val_")) {
                let later: Vec<String> = self.columns.iter().map(|name| format!("val_{name}")).collect();
                self.columns.extend(later);
            }
            self.columns.insert(0, "epoch".to_owned());
            self.write(self.columns.clone().into_iter())?;
        }
        let columns = std::mem::take(&mut self.columns);
        let cell = |name: &String| match (name.as_str(), logs.get(name)) {
            ("epoch", _) => epoch.to_string(),
            (_, Some(number)) => written::as_python(number),
            (_, None) => "NA".to_owned(),
        };
        let written = self.write(columns.iter().map(cell));
        self.columns = columns;
        written
    }
}

fn first_line(path: &PathBuf, separator: char) -> Result<Vec<String>> {
    use std::io::{BufRead, BufReader};
    let wrong = || format!("{} cannot be read", path.display());
    let mut line = String::new();
    let file = File::open(path).context(Code::StorageRead, wrong())?;
    BufReader::new(std::io::Read::take(file, 1 << 20)).read_line(&mut line).context(Code::StorageRead, wrong())?;
    Ok(line.trim_end().split(separator).map(str::to_owned).collect())
}
