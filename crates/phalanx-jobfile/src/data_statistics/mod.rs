//! Statistics of data: of files, and of the inputs of a job as its model sees them.

mod column;
mod file;
mod job;
mod json;
mod table;

pub use column::{ColumnReport, ColumnRole};
pub use file::{FileFormat, FileStatistics};
pub use job::DataPart;

use phalanx_base::Result;
use phalanx_data::{Batch, Dataset};

/// The number of rows that are read at once.
const READ: usize = 1024;

/// A column in which more than this share of the values is unknown gets a warning.
const TOO_MANY_UNKNOWN: f64 = 0.5;

/// Statistics of the columns of some rows.
#[derive(Clone, Debug)]
pub struct DataStatistics {
    /// The number of rows.
    pub rows: u64,
    /// Whether these are all rows.
    pub complete: bool,
    /// The columns.
    pub columns: Vec<ColumnReport>,
}

impl DataStatistics {
    /// Reads rows as they are in the files, `most` at most, until `stop` returns true.
    fn read(
        data: &Dataset,
        mut columns: Vec<ColumnReport>,
        most: Option<u64>,
        stop: &dyn Fn() -> bool,
    ) -> Result<Self> {
        let (rows, complete) = each_batch(data, most, stop, |batch| {
            columns.iter_mut().try_for_each(|column| batch.column(&column.name).map(|values| column.add(values)))
        })?;
        Ok(Self { rows, complete, columns })
    }

    /// Returns what is probably wrong with the data, one sentence each.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.columns.iter().flat_map(ColumnReport::warnings).collect()
    }
}

/// Calls `take` for batches of at most `most` rows in all, until `stop` returns true. Returns the number of rows, and
/// whether these are all.
fn each_batch(
    data: &Dataset,
    most: Option<u64>,
    stop: &dyn Fn() -> bool,
    mut take: impl FnMut(&Batch) -> Result<()>,
) -> Result<(u64, bool)> {
    let mut rows = 0;
    for batch in data.clone().batch(READ).iter()? {
        let batch = batch?;
        let left = most.map_or(u64::MAX, |most| most - rows);
        if left == 0 || stop() {
            return Ok((rows, false));
        }
        if batch.rows() as u64 > left {
            take(&batch.slice(0..left as usize))?;
            return Ok((rows + left, false));
        }
        rows += batch.rows() as u64;
        take(&batch)?;
    }
    Ok((rows, true))
}
