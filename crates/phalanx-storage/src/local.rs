//! Files on this machine, or on what it has mounted.

use crate::store::{Entry, Folder, Listing, Sink, Source, Store, too_long};
use crate::{AppendFile, fault};
use phalanx_base::Result;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A directory of the local file system.
pub(crate) struct Local {
    root: PathBuf,
}

impl Local {
    pub(crate) fn new(root: &Path) -> Self {
        let root = if root.as_os_str().is_empty() { Path::new(".") } else { root };
        Self { root: root.to_owned() }
    }

    fn path(&self, key: &str) -> PathBuf {
        if key.is_empty() { self.root.clone() } else { self.root.join(key) }
    }

    /// Opens a file to write, making the directories above it if that is what is missing, as object stores need none.
    fn open_new(&self, key: &str, options: &OpenOptions) -> Result<(File, PathBuf)> {
        let path = self.path(key);
        let mut file = options.open(&path);
        if matches!(&file, Err(error) if error.kind() == ErrorKind::NotFound) {
            self.create_all(crate::name::split(key).0)?;
            file = options.open(&path);
        }
        let file = file.map_err(|error| fault::write("create the file", &self.place(key), &error))?;
        Ok((file, path))
    }
}

impl Store for Local {
    fn place(&self, key: &str) -> String {
        self.path(key).display().to_string()
    }

    fn local_path(&self, key: &str) -> Option<PathBuf> {
        Some(self.path(key))
    }

    fn create_all(&self, key: &str) -> Result<()> {
        let path = self.path(key);
        let missing = path.ancestors().take_while(|above| !above.as_os_str().is_empty() && !above.exists());
        let missing: Vec<&Path> = missing.collect();
        let made = fs::create_dir_all(&path).and_then(|()| missing.iter().try_for_each(|made| sync_above(made)));
        made.map_err(|error| fault::write("create the directory", &self.place(key), &error))
    }

    fn stage(&self, key: &str) -> Result<Box<dyn Sink>> {
        let (file, path) = self.open_new(key, OpenOptions::new().write(true).create_new(true))?;
        Ok(Box::new(LocalSink { file, path, finished: false }))
    }

    fn publish(&self, staged: &str, to: &str) -> Result<()> {
        let (from, path) = (self.path(staged), self.path(to));
        let moved = fs::rename(&from, &path).and_then(|()| sync_above(&path)).and_then(|()| {
            // Moved to another directory: that it is gone from the first must last as well.
            if from.parent() == path.parent() { Ok(()) } else { sync_above(&from) }
        });
        moved.map_err(|error| fault::write("publish the file", &self.place(to), &error))
    }

    fn read(&self, key: &str, limit: u64) -> Result<Option<Vec<u8>>> {
        let path = self.path(key);
        let mut result = read_limited(&path, limit);
        if matches!(&result, Err(error) if error.kind() == ErrorKind::StaleNetworkFileHandle) {
            // On a network file system: the file was replaced between our open and our read.
            result = read_limited(&path, limit);
        }
        match result {
            Ok(Ok(bytes)) => Ok(Some(bytes)),
            Ok(Err(size)) => Err(too_long(self.place(key), size, limit)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(fault::read("read the file", &self.place(key), &error)),
        }
    }

    fn open(&self, key: &str) -> Result<Option<Box<dyn Source>>> {
        match open_file(&self.path(key)) {
            Ok(file) => Ok(Some(Box::new(LocalSource(file)))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(fault::read("open the file", &self.place(key), &error)),
        }
    }

    fn size(&self, key: &str) -> Result<Option<u64>> {
        match fs::metadata(self.path(key)) {
            Ok(meta) => Ok(meta.is_file().then_some(meta.len())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(fault::read("look at the file", &self.place(key), &error)),
        }
    }

    fn list(&self, key: &str) -> Result<Listing> {
        let path = self.path(key);
        match fs::read_dir(&path).and_then(listing) {
            Ok(listing) => Ok(listing),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Listing::default()),
            Err(error) => Err(fault::read("list the directory", &self.place(key), &error)),
        }
    }

    fn remove(&self, key: &str) -> Result<()> {
        match fs::remove_file(self.path(key)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(fault::write("remove the file", &self.place(key), &error))
            }
            _ => Ok(()),
        }
    }

    fn can_append(&self) -> bool {
        true
    }

    fn append(&self, key: &str) -> Result<AppendFile> {
        let (file, path) = self.open_new(key, OpenOptions::new().append(true).create(true))?;
        let size = file.metadata().map(|meta| meta.len()).and_then(|size| sync_above(&path).map(|()| size));
        let size = size.map_err(|error| fault::write("append to the file", &self.place(key), &error))?;
        Ok(AppendFile::new(file, size, self.place(key)))
    }
}

/// A directory opens like a file and fails at the first read only; better to say it at once.
fn open_file(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    if file.metadata()?.is_dir() { Err(ErrorKind::IsADirectory.into()) } else { Ok(file) }
}

/// The file's bytes, or its size if that is over the limit.
fn read_limited(path: &Path, limit: u64) -> io::Result<Result<Vec<u8>, u64>> {
    let file = open_file(path)?;
    let size = file.metadata()?.len();
    if size > limit {
        return Ok(Err(size));
    }
    let mut bytes = Vec::new();
    // A file may grow while it is read, so the limit is kept here too.
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    let size = bytes.len() as u64;
    Ok(if size > limit { Err(size) } else { Ok(bytes) })
}

fn listing(entries: fs::ReadDir) -> io::Result<Listing> {
    let mut listing = Listing::default();
    for entry in entries {
        let entry = entry?;
        let name = match entry.file_name().into_string() {
            Ok(name) => name,
            Err(odd) => {
                listing.odd.push(odd.to_string_lossy().into_owned());
                continue;
            }
        };
        // What is gone by now, or a link that leads nowhere, is not there.
        let Ok(meta) = fs::metadata(entry.path()) else { continue };
        if meta.is_dir() {
            listing.folders.push(Folder { name, link: entry.file_type()?.is_symlink() });
        } else if meta.is_file() {
            listing.files.push(Entry { name, size: meta.len(), modified: meta.modified()? });
        }
    }
    Ok(listing)
}

/// Makes names in the directory above `path` survive a crash of the machine.
fn sync_above(path: &Path) -> io::Result<()> {
    let above = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match File::open(above)?.sync_all() {
        // Some network file systems know no such thing; then there is nothing more to be had.
        Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => Ok(()),
        result => result,
    }
}

struct LocalSink {
    file: File,
    path: PathBuf,
    finished: bool,
}

impl Sink for LocalSink {
    fn finish(&mut self) -> Result<()> {
        let place = self.path.display().to_string();
        self.file.sync_all().map_err(|error| fault::write("write the file", &place, &error))?;
        self.finished = true;
        Ok(())
    }
}

impl Write for LocalSink {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.file.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for LocalSink {
    fn drop(&mut self) {
        if !self.finished {
            // Nobody is left to tell; what stays is swept later.
            let _ = fs::remove_file(&self.path);
        }
    }
}

struct LocalSource(File);

impl Source for LocalSource {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read_at(buf, offset) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}
