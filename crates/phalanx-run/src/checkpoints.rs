//! The checkpoints in a run directory.

use serde::Serialize;
use std::path::Path;
use std::time::UNIX_EPOCH;

/// A checkpoint, written by TensorFlow or by Phalanx.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckpointFile {
    /// Its name up to the step: `model.ckpt-1200`.
    pub name: String,
    /// The global step in its name.
    pub step: u64,
    /// The size of all its files.
    pub bytes: u64,
    /// The number of its data files.
    pub shards: usize,
    /// When it was written, in milliseconds since 1970.
    #[serde(rename = "at")]
    pub at_ms: u64,
}

/// Lists the checkpoints of a directory by ascending step.
pub(crate) fn list(dir: &Path) -> Vec<CheckpointFile> {
    let mut files: Vec<(String, u64, u64)> = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let Ok(about) = entry.metadata() else { continue };
        let name = entry.file_name().to_string_lossy().into_owned();
        if !about.is_file() || !name.contains("ckpt") {
            continue;
        }
        let at = about.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
        files.push((name, about.len(), u64::try_from(at.as_millis()).unwrap_or(0)));
    }
    let mut found: Vec<CheckpointFile> = files
        .iter()
        .filter_map(|(name, bytes, at_ms)| {
            let prefix = name.strip_suffix(".index")?;
            let step = prefix.rsplit_once('-')?.1.parse().ok()?;
            let data = files.iter().filter(|(other, ..)| {
                other.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(".data-") && !rest.contains("tempstate"))
            });
            let sizes: Vec<u64> = data.map(|(_, bytes, _)| *bytes).collect();
            let bytes = bytes + sizes.iter().sum::<u64>();
            Some(CheckpointFile { name: prefix.to_owned(), step, bytes, shards: sizes.len(), at_ms: *at_ms })
        })
        .collect();
    found.sort_by_key(|checkpoint| checkpoint.step);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_its_index_and_its_data() {
        let dir = tempfile::tempdir().unwrap();
        let files = [
            ("model.ckpt-20.index", 10),
            ("model.ckpt-20.data-00000-of-00002", 100),
            ("model.ckpt-20.data-00001-of-00002", 50),
            ("model.ckpt-3.index", 7),
            ("model.ckpt-30.data-00000-of-00001", 9),
            ("checkpoint", 5),
        ];
        for (name, size) in files {
            std::fs::write(dir.path().join(name), vec![0; size]).unwrap();
        }
        let found: Vec<(u64, u64, usize)> = list(dir.path()).iter().map(|c| (c.step, c.bytes, c.shards)).collect();
        assert_eq!(found, [(3, 7, 0), (20, 160, 2)]);
    }
}
