//! The files and folders to copy.

use phalanx_base::{Code, Error, Result};
use phalanx_run::new_token;
use std::fs::{File, remove_file};
use std::path::{Component, Path, PathBuf};

/// A file or folder to copy. It gets the same path on a node, so that the same command finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StagedPath {
    /// The folder that `name` is relative to, here and on the nodes: the working directory, or `/`.
    pub(super) base: PathBuf,
    /// Without `..`; `.` for all of `base`.
    pub(super) name: PathBuf,
}

impl StagedPath {
    /// `path`, of which a relative one begins at `here`.
    pub(super) fn of(path: &Path, here: &Path) -> Result<Self> {
        let wrong = |why: &dyn std::fmt::Display| {
            Error::new(Code::Flags, format!("--stage {} cannot be copied", path.display()))
                .because(why)
                .help("name a file or folder of this machine; a relative path begins at the working directory")
        };
        let full = here.join(path);
        std::fs::metadata(&full).map_err(|error| wrong(&error))?;
        let full = if full.components().any(|part| part == Component::ParentDir) {
            full.canonicalize().map_err(|error| wrong(&error))?
        } else {
            full.components().collect()
        };
        if full.to_str().is_none() {
            return Err(wrong(&"its name is not UTF-8"));
        }
        let root = Path::new("/");
        let (base, name) = match (full.strip_prefix(here), full.strip_prefix(root)) {
            (Ok(name), _) => (here, name),
            (Err(_), Ok(name)) => (root, name),
            (Err(_), Err(_)) => return Err(wrong(&"it has no absolute path")),
        };
        let name = if name.as_os_str().is_empty() { Path::new(".") } else { name };
        Ok(Self { base: base.to_owned(), name: name.to_owned() })
    }

    pub(super) fn full(&self) -> PathBuf {
        self.base.join(&self.name)
    }

    /// The path as a command reads it in `base`: it begins with `./`, so that no name looks like an option or a host.
    pub(super) fn word(&self) -> PathBuf {
        Path::new(".").join(&self.name)
    }
}

/// Empty files beside or in the paths to copy. A node that sees one has the same disk: there is nothing to copy, and a copy
/// would overwrite what it reads.
pub(super) struct Markers {
    /// One for each path; `None` where none can be written.
    files: Vec<Option<PathBuf>>,
}

impl Markers {
    pub(super) fn put(paths: &[StagedPath]) -> Result<Self> {
        let name = format!(".phalanx-stage-{}", new_token()?);
        let mut markers = Self { files: Vec::with_capacity(paths.len()) };
        for path in paths {
            let full = path.full();
            let folder = if full.is_dir() { full.as_path() } else { full.parent().unwrap_or(Path::new("/")) };
            let file = folder.join(&name);
            let known = markers.files.iter().flatten().any(|other| *other == file);
            let written = known || File::create_new(&file).is_ok();
            markers.files.push(written.then_some(file));
        }
        Ok(markers)
    }

    /// The marker of each path, in order.
    pub(super) fn files(&self) -> impl Iterator<Item = Option<&Path>> {
        self.files.iter().map(Option::as_deref)
    }
}

impl Drop for Markers {
    fn drop(&mut self) {
        for file in self.files.iter().flatten() {
            // Two paths may share one.
            let _ = remove_file(file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_keeps_its_place_in_the_working_directory_or_in_the_file_system() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().canonicalize().unwrap().join("job");
        std::fs::create_dir_all(here.join("data/census")).unwrap();
        std::fs::write(here.join("train"), "").unwrap();
        let of = |path: &str| StagedPath::of(Path::new(path), &here).map(|found| (found.base, found.name));
        let inside = |name: &str| Some((here.clone(), PathBuf::from(name)));
        assert_eq!(of("train").ok(), inside("train"));
        assert_eq!(of("./data//census/").ok(), inside("data/census"));
        assert_eq!(of("data/../train").ok(), inside("train"));
        assert_eq!(of(here.join("data").to_str().unwrap()).ok(), inside("data"));
        assert_eq!(of(".").ok(), inside("."));
        let outside = here.parent().unwrap().strip_prefix("/").unwrap().to_owned();
        assert_eq!(of("..").ok(), Some((PathBuf::from("/"), outside)));
        let error = of("data/cencus").unwrap_err();
        assert_eq!((error.code(), error.what()), (Code::Flags, "--stage data/cencus cannot be copied"));
    }

    #[test]
    fn markers_go_when_they_are_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().canonicalize().unwrap();
        std::fs::write(here.join("a"), "").unwrap();
        std::fs::write(here.join("b"), "").unwrap();
        let paths = ["a", "b", "."].map(|path| StagedPath::of(Path::new(path), &here).unwrap());
        let markers = Markers::put(&paths).unwrap();
        let files: Vec<PathBuf> = markers.files().flatten().map(Path::to_owned).collect();
        assert!(files.len() == 3 && files.iter().all(|file| file.exists()), "{files:?}");
        drop(markers);
        assert!(files.iter().all(|file| !file.exists()));
    }
}
