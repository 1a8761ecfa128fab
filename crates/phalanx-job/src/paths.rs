//! Where the paths of a job begin.

use std::path::{Path, PathBuf};

/// The folders of a job.
#[derive(Clone, Debug, Default)]
pub(crate) struct Paths {
    /// The folder of the file.
    pub(crate) folder: PathBuf,
    /// Where data is, as the command line or the file says it.
    pub(crate) data: String,
    /// Files that stand beside a copy, by what the file calls them.
    pub(crate) copied: Vec<(String, String)>,
}

impl Paths {
    /// A path of the file itself.
    pub(crate) fn beside_file(&self, path: &str) -> String {
        join(&self.folder.to_string_lossy(), path)
    }

    /// A path of its data.
    pub(crate) fn of_data(&self, path: &str) -> String {
        match self.copied.iter().find(|(said, _)| said == path) {
            Some((_, copy)) => copy.clone(),
            None => join(&self.data, path),
        }
    }
}

/// `path` as it is seen from `folder`; what is absolute or in an object store stays as it is.
pub(crate) fn join(folder: &str, path: &str) -> String {
    if path.contains("://") || Path::new(path).is_absolute() || folder.is_empty() {
        return path.to_owned();
    }
    if folder.contains("://") {
        return format!("{}/{path}", folder.trim_end_matches('/'));
    }
    Path::new(folder).join(path).to_string_lossy().into_owned()
}

/// The same place, said so that it is found from every folder.
pub(crate) fn absolute(path: &str) -> String {
    if path.contains("://") {
        return path.to_owned();
    }
    std::path::absolute(path).map_or_else(|_| path.to_owned(), |path| path.to_string_lossy().into_owned())
}
