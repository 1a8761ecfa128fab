//! Checkpoints in a directory.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use phalanx_base::{Code, Context, Error, Result};
use phalanx_formats::bundle::{
    BundleIndex, BundleReader, CheckpointState, DataSource, TensorInfo, data_file, index_file,
};

use super::{Answer, shown, size, text};
use crate::output::table;
use serde_json::{Value, json};

/// The largest index or `checkpoint` file that is read.
const MAX_FILE: u64 = 1 << 30;

/// A checkpoint whose index is valid.
pub(super) struct Checkpoint {
    pub(super) prefix: String,
    pub(super) reader: BundleReader<Files>,
}

/// The data files of one checkpoint.
pub(super) struct Files {
    prefix: String,
    shards: u32,
}

impl Checkpoint {
    /// Opens a checkpoint by its prefix, its index, or the directory of which it is the newest.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let prefix = if path.is_dir() {
            newest(path)?
        } else {
            let prefix = text(path)?;
            prefix.strip_suffix(".index").map(str::to_owned).unwrap_or(prefix)
        };
        let name = index_file(&prefix);
        let index =
            read(Path::new(&name)).map_err(|error| error.help("pass model_dir/model.ckpt-1200 or model_dir"))?;
        let index = BundleIndex::parse(&index).map_err(|error| place(error, &name))?;
        let source = Files { prefix: prefix.clone(), shards: index.shards() };
        let reader = BundleReader::new(index, source).map_err(|error| place(error, &prefix))?;
        Ok(Self { prefix, reader })
    }
}

impl DataSource for Files {
    fn read_range(&self, shard: u32, offset: u64, len: u64) -> Result<Vec<u8>> {
        let len = usize::try_from(len).map_err(|_| Error::new(Code::DataFormat, "a tensor is too large"))?;
        let mut bytes = vec![0; len];
        self.read_into(shard, offset, &mut bytes).map(|()| bytes)
    }

    fn read_into(&self, shard: u32, offset: u64, target: &mut [u8]) -> Result<()> {
        let name = data_file(&self.prefix, shard, self.shards);
        let mut read = || {
            let mut file = File::open(&name)?;
            file.seek(SeekFrom::Start(offset))?;
            file.read_exact(target)
        };
        read().context(Code::DataMissing, format!("cannot read {name}"))
    }

    fn size(&self, shard: u32) -> Result<u64> {
        let name = data_file(&self.prefix, shard, self.shards);
        let data = std::fs::metadata(&name).context(Code::DataMissing, format!("cannot read {name}"))?;
        Ok(data.len())
    }
}

/// Lists the checkpoints in the file `checkpoint`, then all others.
pub(super) fn list(dir: &Path) -> Result<Answer> {
    let mut state = state(dir)?.unwrap_or_default();
    state.latest = state.latest.map(|name| relative(dir, name));
    let mut names: Vec<String> = state.all.into_iter().map(|name| relative(dir, name)).collect();
    names.extend(state.latest.clone());
    let entries = std::fs::read_dir(dir).context(Code::DataMissing, format!("cannot list {}", dir.display()))?;
    let mut found = Vec::new();
    for entry in entries {
        let name = entry.context(Code::DataMissing, format!("cannot list {}", dir.display()))?.file_name();
        found.extend(name.to_str().and_then(|name| name.strip_suffix(".index")).map(str::to_owned));
    }
    found.sort_unstable_by_key(|name| (step(name), name.clone()));
    names.extend(found);
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|name| seen.insert(dir.join(name)));

    let mut rows = vec![["", "CHECKPOINT", "STEP", "TENSORS", "SHARDS", "SIZE", ""].map(str::to_owned).to_vec()];
    let mut items = Vec::new();
    for name in &names {
        let newest = state.latest.as_ref() == Some(name);
        let opened = Checkpoint::open(&dir.join(name));
        let step = step(name);
        let mark = if newest { "*" } else { "" }.to_owned();
        let mut row = vec![mark, shown(name), step.map_or_else(String::new, |step| step.to_string())];
        let mut item = json!({ "name": name, "latest": newest, "step": step });
        match opened {
            Ok(Checkpoint { reader, .. }) => {
                let index = reader.index();
                let bytes = index.tensors().values().map(TensorInfo::stored_bytes).sum::<u64>();
                row.extend([index.tensors().len().to_string(), index.shards().to_string(), size(bytes)]);
                (item["tensors"], item["shards"]) = (json!(index.tensors().len()), json!(index.shards()));
                (item["bytes"], item["problem"]) = (json!(bytes), Value::Null);
            }
            Err(error) => {
                row.extend(["", "", ""].map(str::to_owned));
                row.push(shown(&error.to_string()));
                item["problem"] = json!(error.to_string());
            }
        }
        rows.push(row);
        items.push(item);
    }
    let text = if names.is_empty() { format!("no checkpoints in {}\n", dir.display()) } else { table(&rows) };
    let json = json!({ "dir": super::text(dir)?, "latest": state.latest, "checkpoints": items });
    Ok(Answer { json, text, good: true, warnings: String::new() })
}

/// The name relative to `dir`. TensorFlow's Saver writes absolute paths into `checkpoint` if it was given one.
fn relative(dir: &Path, name: String) -> String {
    let path = Path::new(&name);
    let here = path.is_absolute()
        && path
            .parent()
            .and_then(|parent| parent.canonicalize().ok())
            .is_some_and(|parent| dir.canonicalize().is_ok_and(|dir| dir == parent));
    match path.file_name().and_then(|name| name.to_str()) {
        Some(file) if here => file.to_owned(),
        _ => name,
    }
}

/// The prefix of the newest checkpoint.
fn newest(dir: &Path) -> Result<String> {
    let none = || {
        Error::new(Code::DataMissing, format!("{} names no newest checkpoint", dir.join("checkpoint").display()))
            .help(format!("list its checkpoints: phalanx checkpoint ls {}", dir.display()))
    };
    let latest = state(dir)?.and_then(|state| state.latest).ok_or_else(none)?;
    text(&dir.join(latest))
}

/// Reads the file `checkpoint`; `None` if there is none.
fn state(dir: &Path) -> Result<Option<CheckpointState>> {
    let path = dir.join("checkpoint");
    if !path.exists() {
        return Ok(None);
    }
    CheckpointState::parse(&read(&path)?).map(Some).map_err(|error| place(error, &path.display().to_string()))
}

/// The number at the end of a checkpoint's name.
fn step(name: &str) -> Option<u64> {
    name.rsplit_once('-').and_then(|(_, step)| step.parse().ok())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let what = || format!("cannot read {}", path.display());
    let size = std::fs::metadata(path).context(Code::DataMissing, what())?.len();
    if size > MAX_FILE {
        return Err(Error::new(Code::DataFormat, what()).because(format!("{size} bytes are too many")));
    }
    std::fs::read(path).context(Code::DataMissing, what())
}

/// Adds the name of the file to the position of an error.
fn place(error: Error, file: &str) -> Error {
    let place = error.place().map_or(file.to_owned(), |place| format!("{file}, {place}"));
    error.at(place)
}
