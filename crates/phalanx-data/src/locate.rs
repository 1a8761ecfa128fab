//! Finds a row again, to name its place in a message.

use crate::dataset::Node;
use crate::finite::place_of;
use crate::{Batch, Dataset, PartPosition, Source};
use phalanx_base::Result;

/// How many rows are looked at together.
const CHUNK: usize = 1024;

/// Returns the place (`data.csv, line 7`) of the first row of a source that `fails`; `None` if no row does.
///
/// Reads the source from its beginning. It serves errors that are found in a batch, where the origin of a row is not known
/// any more: nothing has to be recorded while rows are read.
///
/// ```
/// use phalanx_data::{csv, find_row};
/// let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("a.csv");
/// std::fs::write(&path, "label\n0\n1\n\n7\n").unwrap();
/// let found = find_row(&csv(&path), |rows| rows.i64("label").is_ok_and(|labels| labels.iter().any(|&label| label > 1)))?;
/// assert!(found.unwrap().ends_with("a.csv, line 5"));
/// # Ok::<(), phalanx_base::Error>(())
/// ```
///
/// # Errors
/// When the source cannot be read up to that row.
pub fn find_row(source: &dyn Source, mut fails: impl FnMut(&Batch) -> bool) -> Result<Option<String>> {
    for part in 0..source.parts()? {
        let mut reader = source.open(part, PartPosition::START)?;
        loop {
            let from = reader.position();
            let Some(batch) = reader.read(CHUNK)? else { break };
            if fails(&batch) {
                let row = (0..batch.rows()).find(|&row| fails(&batch.slice(row..row + 1))).unwrap_or(0);
                return place_of(source.open(part, from)?, row).map(|(_, place)| Some(place));
            }
        }
    }
    Ok(None)
}

impl Dataset {
    /// Returns the place of the first row of the files that this dataset reads for which `fails`, as [`find_row`] does. The
    /// rows are those of the files, before any stage of the dataset has changed them.
    ///
    /// # Errors
    /// When a file cannot be read up to that row.
    pub fn find_row(&self, mut fails: impl FnMut(&Batch) -> bool) -> Result<Option<String>> {
        find_below(self.node(), &mut fails)
    }
}

fn find_below(node: &Node, fails: &mut dyn FnMut(&Batch) -> bool) -> Result<Option<String>> {
    if let Some(files) = node.op().files() {
        return find_row(&*files.source, &mut *fails);
    }
    for input in node.inputs() {
        let found = find_below(input, fails)?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}
