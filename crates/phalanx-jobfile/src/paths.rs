//! Resolution of the paths of a job.

use std::path::{Path, PathBuf};

/// The folders of a job.
#[derive(Clone, Debug, Default)]
pub(crate) struct Paths {
    /// The folder of the job file.
    pub(crate) folder: PathBuf,
    /// The folder of the data, from the command line or the file.
    pub(crate) data: String,
    /// Files stored with a copy, by their path in the job file.
    pub(crate) copied: Vec<(String, String)>,
}

impl Paths {
    /// Resolves a path relative to the job file.
    pub(crate) fn beside_file(&self, path: &str) -> String {
        join(&self.folder.to_string_lossy(), path)
    }

    /// Resolves a path relative to the data folder.
    pub(crate) fn of_data(&self, path: &str) -> String {
        match self.copied.iter().find(|(original, _)| original == path) {
            Some((_, copy)) => copy.clone(),
            None => join(&self.data, path),
        }
    }
}

/// Resolves `path` relative to `folder`. Absolute paths and object-store URLs stay unchanged.
pub(crate) fn join(folder: &str, path: &str) -> String {
    if path.contains("://") || Path::new(path).is_absolute() || folder.is_empty() {
        return path.to_owned();
    }
    if folder.contains("://") {
        return format!("{}/{path}", folder.trim_end_matches('/'));
    }
    Path::new(folder).join(path).to_string_lossy().into_owned()
}

/// Makes a path absolute. Object-store URLs stay unchanged.
pub(crate) fn absolute(path: &str) -> String {
    if path.contains("://") {
        return path.to_owned();
    }
    std::path::absolute(path).map_or_else(|_| path.to_owned(), |path| path.to_string_lossy().into_owned())
}
