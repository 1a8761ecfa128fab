//! A local folder that a SavedModel is written to.

use phalanx_base::{Code, Context, Error, Result};
use phalanx_formats::saved_model::Directory;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// The folder that a model is written to.
pub struct Folder(pub PathBuf);

impl Directory for Folder {
    type File<'a> = BufWriter<File>;

    fn create(&mut self, path: &str) -> Result<BufWriter<File>> {
        let path = self.0.join(path);
        let made = path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| File::create(&path));
        made.map(BufWriter::new).context(Code::StorageWrite, format!("{} cannot be created", path.display()))
    }
}

impl Folder {
    /// Fills a temporary folder and renames it to `folder` when it is complete.
    ///
    /// # Errors
    /// Fails if `fill` does, or the folder cannot be renamed.
    pub fn fill(folder: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let temporary = folder.with_file_name(format!("temp-{name}-{}", std::process::id()));
        let wrong = || format!("{} cannot be written", folder.display());
        std::fs::create_dir_all(&temporary).context(Code::StorageWrite, wrong())?;
        let done =
            fill(&temporary).and_then(|()| std::fs::rename(&temporary, folder).context(Code::StorageWrite, wrong()));
        if done.is_err() {
            let _ = std::fs::remove_dir_all(&temporary);
        }
        done
    }
}

/// Refuses a folder that exists already, since a server may be serving it.
///
/// # Errors
/// Fails if the folder exists.
pub fn is_free(folder: &Path) -> Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    Err(Error::new(Code::StorageWrite, format!("{} exists already", folder.display()))
        .help("export to a new folder; TensorFlow Serving takes the one with the largest number"))
}
