//! From patterns to a sorted list of files.

use crate::public_data::data_set_of;
use phalanx_base::{Code, Error, Result, nearest};
use phalanx_storage::{Dir, glob};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Which files to read: paths, or patterns with `*`, `?`, `[a-z]` and `**`; local, or in an object store (`s3://…`).
///
/// The matches of a pattern are sorted, so that every worker sees the same files in the same order; the order of
/// several patterns is kept. A file that is named twice is read twice.
///
/// ```
/// use phalanx_data::Files;
/// let one: Files = "data/train-*.csv".into();
/// let two = Files::from(["data/a.csv", "data/b.csv"]);
/// assert_eq!(two.patterns(), ["data/a.csv", "data/b.csv"]);
/// # drop(one);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    patterns: Vec<String>,
}

impl Files {
    /// The patterns as they were given.
    #[must_use]
    pub fn patterns(&self) -> &[String] {
        &self.patterns
    }

    /// The files there are now.
    ///
    /// # Errors
    /// When a pattern matches nothing, a path does not exist, or a folder cannot be read.
    pub fn list(&self) -> Result<Vec<String>> {
        if self.patterns.is_empty() {
            return Err(Error::new(Code::DataMissing, "there are no files to read").because("no path was given"));
        }
        let mut files = Vec::new();
        for pattern in &self.patterns {
            let matches = if is_pattern(pattern) && !Path::new(pattern).is_file() {
                expand(pattern)?
            } else {
                vec![existing(pattern)?]
            };
            files.extend(matches);
        }
        Ok(files)
    }
}

/// Files that are listed once, at first use.
#[derive(Clone, Debug)]
pub(crate) struct FileList {
    files: Files,
    list: OnceLock<Result<Arc<Vec<String>>>>,
}

impl FileList {
    pub(crate) fn new(files: Files) -> Self {
        Self { files, list: OnceLock::new() }
    }

    pub(crate) fn list(&self) -> Result<Arc<Vec<String>>> {
        self.list.get_or_init(|| self.files.list().map(Arc::new)).clone()
    }

    /// Returns the path of one file, for messages also if the files cannot be listed.
    pub(crate) fn name(&self, part: usize) -> String {
        self.list().ok().and_then(|list| list.get(part).cloned()).unwrap_or_else(|| format!("file {part}"))
    }
}

macro_rules! files_from {
    ($($type:ty: $pattern:ident => $text:expr;)*) => {$(
        impl From<$type> for Files {
            fn from($pattern: $type) -> Self {
                Self { patterns: vec![$text] }
            }
        }
    )*};
}

files_from! {
    &str: pattern => pattern.to_owned();
    String: pattern => pattern;
    &Path: path => path.to_string_lossy().into_owned();
    PathBuf: path => path.to_string_lossy().into_owned();
    &PathBuf: path => path.to_string_lossy().into_owned();
}

impl<S: Into<String>> From<Vec<S>> for Files {
    fn from(patterns: Vec<S>) -> Self {
        Self { patterns: patterns.into_iter().map(Into::into).collect() }
    }
}

impl<S: Into<String>, const N: usize> From<[S; N]> for Files {
    fn from(patterns: [S; N]) -> Self {
        Self { patterns: patterns.into_iter().map(Into::into).collect() }
    }
}

fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

fn existing(path: &str) -> Result<String> {
    let (dir, name) = split(path)?;
    let missing = |why: &str| Error::new(Code::DataMissing, format!("cannot read {path:?}")).because(why);
    if dir.local_path(&name).is_some_and(|path| path.is_dir()) {
        return Err(missing("it is a folder").help(format!("name the files in it: {path}/*")));
    }
    match dir.size(&name) {
        Ok(Some(_)) => Ok(path.to_owned()),
        Ok(None) => Err(missing("there is no such file").help(how_to_get(&dir, &name))),
        Err(error) => Err(missing(&error.to_string())),
    }
}

/// Returns what to do about a file that is not there.
fn how_to_get(dir: &Dir, wanted: &str) -> String {
    if let Some(data_set) = data_set_of(wanted) {
        let other = if data_set == "mnist" { " (or fashion-mnist)" } else { "" };
        return format!("give the folder that has it; `phalanx data fetch {data_set} --dir DIR`{other} downloads it");
    }
    let names: Vec<String> = dir.list("").unwrap_or_default().into_iter().map(|entry| entry.name).collect();
    match nearest(wanted, names.iter().map(String::as_str)) {
        Some(name) => format!("did you mean {:?}?", join(dir, name)),
        None => "correct the path; one without a / in front begins where the program was started".to_owned(),
    }
}

/// All files that fit, sorted.
fn expand(pattern: &str) -> Result<Vec<String>> {
    let unlisted = |error: Error| Error::new(Code::DataMissing, format!("cannot look for {pattern:?}")).because(error);
    let found = glob(pattern).map_err(unlisted)?;
    if found.is_empty() {
        return Err(Error::new(Code::DataMissing, format!("no file matches {pattern:?}"))
            .because(deepest(pattern))
            .help("correct the pattern; * and ? do not match a /, ** stands for any folders"));
    }
    Ok(found.iter().map(|(dir, name)| join(dir, name)).collect())
}

/// How far a pattern leads: what the last folder without a wildcard holds.
fn deepest(pattern: &str) -> String {
    let fixed = pattern.split('/').take_while(|part| !is_pattern(part)).collect::<Vec<_>>().join("/");
    let folder = match (fixed.is_empty(), pattern.starts_with('/')) {
        (true, false) => ".".to_owned(),
        (true, true) => "/".to_owned(),
        _ => fixed,
    };
    if !folder.contains("://") && !Path::new(&folder).is_dir() {
        return format!("there is no folder {folder:?}");
    }
    match Dir::open(&folder).and_then(|dir| dir.list("")) {
        Ok(names) => format!("folder {folder:?} has {} files, none that fits", names.len()),
        Err(error) => format!("folder {folder:?} cannot be read: {error}"),
    }
}

/// The folder of a path, and the name in it.
pub(super) fn split(path: &str) -> Result<(Dir, String)> {
    let (folder, name) = match path.rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some((folder, name)) => (folder, name),
        None => (".", path),
    };
    Ok((Dir::open(folder)?, name.to_owned()))
}

fn join(dir: &Dir, name: &str) -> String {
    let folder = dir.location();
    match folder.as_str() {
        "" | "." => name.to_owned(),
        folder if folder.ends_with('/') => format!("{folder}{name}"),
        folder => format!("{folder}/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        }
        folder
    }

    fn names(folder: &tempfile::TempDir, pattern: &str) -> Vec<String> {
        let base = folder.path().to_string_lossy().into_owned();
        let found = Files::from(format!("{base}/{pattern}")).list().unwrap();
        found.into_iter().map(|path| path[base.len() + 1..].to_owned()).collect()
    }

    #[test]
    fn matches_are_sorted_files() {
        let folder = folder(&["b.csv", "a.csv", "c.txt", "day=2/x.csv", "day=1/x.csv", "day=1/.x.csv"]);
        assert_eq!(names(&folder, "*.csv"), ["a.csv", "b.csv"]);
        assert_eq!(names(&folder, "day=*/*.csv"), ["day=1/x.csv", "day=2/x.csv"]);
        assert_eq!(names(&folder, "day=2/x.csv"), ["day=2/x.csv"]);
        assert_eq!(names(&folder, "**/x.csv"), ["day=1/x.csv", "day=2/x.csv"]);
    }

    #[test]
    fn what_is_missing_is_said() {
        let folder = folder(&["train.csv"]);
        let list = |name: &str| Files::from(folder.path().join(name)).list().unwrap_err();
        let error = list("*.tsv");
        assert_eq!(error.code(), Code::DataMissing);
        assert!(error.to_string().contains("has 1 files, none that fits"), "{error}");
        assert!(list("trian.csv").next().unwrap().contains("train.csv"));
        assert!(list("none/*.csv").to_string().contains("there is no folder"));
        assert!(Files::from(folder.path()).list().unwrap_err().to_string().contains("it is a folder"));
    }

    #[test]
    fn a_file_with_a_bracket_in_its_name_is_found() {
        let folder = folder(&["a[1].csv"]);
        assert_eq!(names(&folder, "a[1].csv"), ["a[1].csv"]);
    }
}
