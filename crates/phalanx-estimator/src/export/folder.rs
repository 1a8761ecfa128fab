//! A folder on disk.

use phalanx_base::{Code, Context, Result};
use phalanx_formats::saved_model::Directory;
use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;

pub(super) struct Folder(pub(super) PathBuf);

impl Directory for Folder {
    type File<'a> = BufWriter<File>;

    fn create(&mut self, path: &str) -> Result<BufWriter<File>> {
        let path = self.0.join(path);
        let made = path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| File::create(&path));
        made.map(BufWriter::new).context(Code::StorageWrite, format!("{} cannot be created", path.display()))
    }
}
