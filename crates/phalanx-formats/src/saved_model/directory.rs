//! The destination of a model's files: this crate opens no path itself.

use phalanx_base::Result;
use std::collections::BTreeMap;
use std::io::Write;

/// A folder that files can be put into. Files in memory, by their paths, are one already.
pub trait Directory {
    /// A file that is being written.
    type File<'a>: Write
    where
        Self: 'a;

    /// Begins the file at this path, with slashes, of which the folders may not exist. Everything is written to it, and
    /// it is flushed, before the next one is begun.
    ///
    /// # Errors
    /// When it cannot be created.
    fn create(&mut self, path: &str) -> Result<Self::File<'_>>;
}

impl Directory for BTreeMap<String, Vec<u8>> {
    type File<'a> = &'a mut Vec<u8>;

    fn create(&mut self, path: &str) -> Result<&mut Vec<u8>> {
        let file = self.entry(path.to_owned()).or_default();
        file.clear();
        Ok(file)
    }
}

impl<D: Directory> Directory for &mut D {
    type File<'a>
        = D::File<'a>
    where
        Self: 'a;

    fn create(&mut self, path: &str) -> Result<D::File<'_>> {
        (**self).create(path)
    }
}
