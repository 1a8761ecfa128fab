//! The statistics of a run's training data.

use serde_json::Value;
use std::path::Path;
use std::time::UNIX_EPOCH;

/// The file that `phalanx train` writes into the run directory.
const FILE: &str = "statistics.json";

/// The largest file that is read, in bytes.
const MAX_BYTES: u64 = 16 << 20;

/// The statistics of the first training batches, as `phalanx train` wrote them.
#[derive(Clone, Debug, PartialEq)]
pub struct DataStatistics {
    /// When they were written, in milliseconds since 1970.
    pub at_ms: u64,
    /// The content of the file.
    pub content: Value,
}

/// Reads the file, unless `known` is what it contains. A missing or damaged file is no error.
pub(crate) fn read(model_dir: &Path, known: Option<DataStatistics>) -> Option<DataStatistics> {
    let path = model_dir.join(FILE);
    let file = std::fs::metadata(&path).ok().filter(|file| file.is_file() && file.len() <= MAX_BYTES)?;
    let at_ms = file.modified().ok()?.duration_since(UNIX_EPOCH).ok()?.as_millis() as u64;
    if let Some(known) = known.filter(|known| known.at_ms == at_ms) {
        return Some(known);
    }
    let content = serde_json::from_slice(&std::fs::read(&path).ok()?).ok()?;
    Some(DataStatistics { at_ms, content })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_when_it_appears_and_a_damaged_one_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path(), None), None);
        std::fs::write(folder.path().join(FILE), "{\"rows\": 3}").unwrap();
        let found = read(folder.path(), None).unwrap();
        assert_eq!(found.content["rows"], 3);
        assert_eq!(read(folder.path(), Some(found.clone())), Some(found));
        std::fs::write(folder.path().join(FILE), "{\"rows\":").unwrap();
        assert_eq!(read(folder.path(), None), None);
    }
}
