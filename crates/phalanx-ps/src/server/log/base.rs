//! The snapshot that a log continues: a checkpoint of this server alone, and the state that checkpoints do not have, in a
//! folder that gets its name when it is complete.

use crate::proto::{LogState, Part, Span};
use crate::server::StoreSnapshot;
use crate::server::write_snapshot::write_snapshot;
use phalanx_base::{Code, Context, Error, Result};
use phalanx_formats::bundle::{data_file, index_file};
use prost::Message;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// The name of the checkpoint.
pub(super) const CHECKPOINT: &str = "snapshot";

const STATE: &str = "state";
const PREFIX: &str = "base-";
const UNFINISHED: &str = "unfinished";

/// Writes and publishes a snapshot, and removes the ones before.
pub(super) fn write(folder: &Path, snapshot: &StoreSnapshot, state: &LogState) -> Result<()> {
    let unfinished = folder.join(UNFINISHED);
    let published = folder.join(format!("{PREFIX}{:020}", state.position));
    let _ = std::fs::remove_dir_all(&unfinished);
    let written = write_files(&unfinished, snapshot, state).and_then(|()| {
        let renamed = std::fs::rename(&unfinished, &published);
        renamed.context(Code::StorageWrite, "a snapshot cannot be published")
    });
    if let Err(error) = written {
        let _ = std::fs::remove_dir_all(&unfinished);
        return Err(error.at(folder.display().to_string()));
    }
    for older in published_in(folder).into_iter().filter(|path| *path != published) {
        let _ = std::fs::remove_dir_all(older);
    }
    Ok(())
}

fn write_files(folder: &Path, snapshot: &StoreSnapshot, state: &LogState) -> Result<()> {
    const WHAT: &str = "a snapshot cannot be written";
    std::fs::create_dir(folder).context(Code::StorageWrite, WHAT)?;
    let create = |name: &str| File::create(folder.join(name)).context(Code::StorageWrite, WHAT);
    let tables = snapshot.table_rows().into_iter().map(|total| Span { first: 0, total }).collect();
    let part = Part { server: 0, servers: 1, tables };
    let data = BufWriter::with_capacity(1 << 20, create(&data_file(CHECKPOINT, 0, 1))?);
    let (mut data, index) = write_snapshot(snapshot, &part, data)?;
    data.flush().context(Code::StorageWrite, WHAT)?;
    create(&index_file(CHECKPOINT))?.write_all(&index.to_bytes()?).context(Code::StorageWrite, WHAT)?;
    let state = state.encode_to_vec();
    let mut out = create(STATE)?;
    out.write_all(&crc32c::crc32c(&state).to_le_bytes()).context(Code::StorageWrite, WHAT)?;
    out.write_all(&state).context(Code::StorageWrite, WHAT)
}

/// Returns the newest published snapshot and its state; `None` if there is none.
///
/// # Errors
/// When it is damaged.
pub(super) fn newest(folder: &Path) -> Result<Option<(PathBuf, LogState)>> {
    let Some(path) = published_in(folder).into_iter().max() else { return Ok(None) };
    let bytes = std::fs::read(path.join(STATE)).context(Code::LogDamaged, "a snapshot cannot be read")?;
    let (crc, state) = bytes.split_first_chunk::<4>().ok_or_else(|| damaged(&path))?;
    if crc32c::crc32c(state) != u32::from_le_bytes(*crc) {
        return Err(damaged(&path).because("the checksum of its state is wrong"));
    }
    let state = LogState::decode(state).context(Code::LogDamaged, "a snapshot cannot be read")?;
    Ok(Some((path, state)))
}

/// Removes all snapshots, so that no later incarnation continues from them.
pub(super) fn remove_all(folder: &Path) {
    for path in published_in(folder) {
        let _ = std::fs::remove_dir_all(path);
    }
}

fn published_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_base = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
    entries.filter(is_base).collect()
}

fn damaged(path: &Path) -> Error {
    Error::new(Code::LogDamaged, "the snapshot of a write-ahead log is damaged").at(path.display().to_string())
}
