//! A folder with runs in it.

use crate::RunDir;
use phalanx_base::{Code, Error, Result};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The most runs of a folder that are listed, the newest first.
const MAX_RUNS: usize = 500;
/// The depth to which a folder is searched for event files.
const DEPTH: usize = 3;

/// A folder with run directories in it, such as `runs/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFolder {
    root: PathBuf,
}

/// What a directory contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Runs {
    /// It is a run directory, or the `model_dir` of a program that no launcher started.
    One(RunDir),
    /// There are runs in it.
    Many(RunFolder),
}

impl Runs {
    /// Finds out what `dir` contains.
    ///
    /// # Errors
    /// If there is no such directory, or neither it nor a directory in it is a run.
    pub fn find(dir: impl Into<PathBuf>) -> Result<Self> {
        let root: PathBuf = dir.into();
        if !root.is_dir() {
            let error = Error::new(Code::DataMissing, format!("there is no directory {}", root.display()));
            return Err(error
                .help("pass a run directory, such as runs/train-20260102-030405, or a folder of runs, such as runs"));
        }
        if is_launched(&root) || has_training_files(&root) {
            return Ok(Self::One(RunDir::at(root)));
        }
        let folder = RunFolder { root };
        if !folder.runs().is_empty() {
            return Ok(Self::Many(folder));
        }
        if has_event_files(&folder.root, DEPTH) {
            return Ok(Self::One(RunDir::at(folder.root)));
        }
        Err(Error::new(Code::DataMissing, format!("there is no run in {}", folder.root.display()))
            .because("neither it nor a directory in it has a launcher's logs/job.json, checkpoints or event files")
            .help("pass a run directory, or the folder above it; `phalanx launch` writes to runs/"))
    }
}

impl RunFolder {
    /// The folder itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The names of the runs in the folder, the newest first, at most 500.
    #[must_use]
    pub fn runs(&self) -> Vec<String> {
        let mut found: Vec<(SystemTime, String)> = Vec::new();
        for entry in std::fs::read_dir(&self.root).into_iter().flatten().flatten() {
            // A name that is no text could not be asked for.
            let Ok(name) = entry.file_name().into_string() else { continue };
            let path = entry.path();
            if path.is_dir() && (is_launched(&path) || has_checkpoints(&path)) {
                found.push((started(&path), name));
            }
        }
        found.sort_by(|a, b| b.cmp(a));
        found.truncate(MAX_RUNS);
        found.into_iter().map(|(_, name)| name).collect()
    }

    /// The run with this name; `None` if there is none.
    #[must_use]
    pub fn run(&self, name: &str) -> Option<RunDir> {
        self.runs().iter().any(|known| known == name).then(|| RunDir::at(self.root.join(name)))
    }
}

/// When a run began, as far as its files show.
fn started(dir: &Path) -> SystemTime {
    let written = |path: &Path| std::fs::metadata(path).and_then(|about| about.modified()).ok();
    written(&RunDir::at(dir).job_file()).or_else(|| written(dir)).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Whether a launcher has written into a directory.
fn is_launched(dir: &Path) -> bool {
    let run = RunDir::at(dir);
    run.job_file().is_file() || run.events_file().is_file()
}

fn has_checkpoints(dir: &Path) -> bool {
    any_file(dir, |name| name.contains("ckpt") && name.ends_with(".index"))
}

/// Whether a program has written checkpoints or event files into the directory itself.
fn has_training_files(dir: &Path) -> bool {
    has_checkpoints(dir) || any_file(dir, |name| name.contains("tfevents"))
}

/// Whether there are event files in a directory or below it.
fn has_event_files(dir: &Path, depth: usize) -> bool {
    if any_file(dir, |name| name.contains("tfevents")) {
        return true;
    }
    let below = std::fs::read_dir(dir).into_iter().flatten().flatten();
    depth > 1 && below.map(|entry| entry.path()).any(|path| path.is_dir() && has_event_files(&path, depth - 1))
}

fn any_file(dir: &Path, wanted: impl Fn(&str) -> bool) -> bool {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).any(|name| wanted(&name.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(root: &Path, files: &[&str]) {
        for file in files {
            let path = root.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
    }

    #[test]
    fn a_folder_is_one_run_many_runs_or_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let of = |name: &str| Runs::find(root.join(name));
        let one = |name: &str| assert_eq!(of(name).unwrap(), Runs::One(RunDir::at(root.join(name))), "{name}");
        touch(root, &["launched/logs/job.json", "launched/model/model.ckpt-1.index"]);
        touch(root, &["trained/model.ckpt-1.index"]);
        touch(root, &["evaluated/events.out.tfevents.1", "evaluated/eval/events.out.tfevents.1"]);
        // TensorBoard's folders of one training are no runs of their own.
        touch(root, &["keras/train/events.out.tfevents.1", "keras/validation/events.out.tfevents.1"]);
        touch(root, &["notes/readme.txt"]);
        ["launched", "trained", "evaluated", "keras"].into_iter().for_each(one);
        let Runs::Many(folder) = of("").unwrap() else { panic!("it has runs in it") };
        let mut names = folder.runs();
        names.sort();
        assert_eq!(names, ["launched", "trained"]);
        assert_eq!(folder.run("trained"), Some(RunDir::at(root.join("trained"))));
        assert_eq!(folder.run("../trained"), None);
        assert_eq!(folder.run("notes"), None);
        for (name, what) in [("notes", "there is no run in"), ("nowhere", "there is no directory")] {
            let error = of(name).unwrap_err();
            assert_eq!(error.code(), Code::DataMissing);
            assert!(error.what().starts_with(what) && error.next().is_some(), "{error}");
        }
    }
}
