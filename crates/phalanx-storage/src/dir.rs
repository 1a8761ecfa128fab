//! A directory of a run.

use crate::local::Local;
use crate::location::Location;
use crate::memory::Memory;
use crate::store::Store;
use crate::{AppendFile, Entry, ReadFile, StagedFile, name};
use phalanx_base::{Code, Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// A directory on a local path or in an object store. Clones are cheap and mean the same directory.
///
/// Names of files are relative to it, with `/` between their parts; what would lead out of it is refused.
///
/// ```
/// use std::io::Write;
/// use phalanx_storage::Dir;
///
/// let dir = Dir::in_memory();
/// let mut file = dir.stage("model.ckpt-7.index")?;
/// file.write_all(b"bytes").unwrap();
/// let staged = file.finish()?;
/// assert!(dir.list("")?.is_empty(), "nobody sees it yet");
/// dir.publish(&staged.name, "model.ckpt-7.index")?;
/// assert_eq!(dir.read("model.ckpt-7.index", 100)?, b"bytes");
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone)]
pub struct Dir {
    store: Arc<dyn Store>,
    /// Where in the store the directory is; empty at its root.
    prefix: String,
}

impl Dir {
    /// The directory at a location: a path, `file:///path`, `s3://bucket/prefix`, `gs://bucket/prefix` or
    /// `az://container/prefix`. It need not exist yet, and no store is asked for it yet.
    ///
    /// # Errors
    /// When the location is malformed, or this build cannot reach it.
    pub fn open(location: &str) -> Result<Self> {
        match Location::parse(location)? {
            Location::Local(path) => Ok(Self::local(path)),
            #[cfg(any(feature = "s3", feature = "gs", feature = "az"))]
            Location::Object { scheme, bucket, prefix } => {
                let store = crate::object::Objects::open(location, scheme, bucket)?;
                Ok(Self { store: Arc::new(store), prefix: prefix.to_owned() })
            }
            #[cfg(not(any(feature = "s3", feature = "gs", feature = "az")))]
            Location::Object { scheme, .. } => Err(crate::location::not_built_in(location, scheme)),
        }
    }

    /// A directory of the local file system.
    #[must_use]
    pub fn local(path: impl AsRef<Path>) -> Self {
        Self::new(Local::new(path.as_ref()))
    }

    /// A new directory in memory, for tests. Clones share what is in it. Like an object store it cannot append.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::new(Memory::default())
    }

    pub(crate) fn new(store: impl Store + 'static) -> Self {
        Self { store: Arc::new(store), prefix: String::new() }
    }

    /// The full location, as it is shown to people.
    #[must_use]
    pub fn location(&self) -> String {
        self.store.place(&self.prefix)
    }

    /// Returns a directory below this one, such as `eval` or `export/best/1700000000`.
    ///
    /// # Errors
    /// When the name leads out of this directory.
    pub fn child(&self, name: &str) -> Result<Self> {
        Ok(Self { store: self.store.clone(), prefix: self.key(name)? })
    }

    /// Where a file of that name is in the local file system, if it is there at all.
    #[must_use]
    pub fn local_path(&self, name: &str) -> Option<PathBuf> {
        self.store.local_path(&self.key(name).ok()?)
    }

    /// Whether [`Dir::append`] works here.
    #[must_use]
    pub fn can_append(&self) -> bool {
        self.store.can_append()
    }

    /// Makes the directory and those above it. Object stores have none, and need none.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create_all(&self) -> Result<()> {
        self.store.create_all(&self.prefix)
    }

    /// Begins a file that nobody sees before it is published. `name` is what it is going to be called: the temporary
    /// name is beside it, and is no name that TensorFlow or TensorBoard would take for one of theirs.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn stage(&self, name: &str) -> Result<StagedFile> {
        name::check(name)?;
        let staged = name::staged_beside(name)?;
        let key = name::join(&self.prefix, &staged);
        Ok(StagedFile::new(staged, self.store.place(&key), self.store.stage(&key)?))
    }

    /// Gives a staged file its name, in place of whatever had it. Readers see the old file or the new one, never half
    /// of one. The file may have been staged by another process.
    ///
    /// In object stores this is a copy inside the store; S3 copies files of up to 5 GB.
    ///
    /// # Errors
    /// When `staged` is not the name of a staged file, or it cannot be renamed.
    pub fn publish(&self, staged: &str, to: &str) -> Result<()> {
        let (from, to) = (self.key(staged)?, self.key(to)?);
        if !name::is_staged(&from) || name::is_staged(&to) {
            let error = Error::new(Code::StorageWrite, "cannot publish the file").at(self.store.place(&from));
            let error = error.because("only a staged file can be published, and not under a staged file's name");
            return Err(error.help("publish the name that StagedFile::finish gave"));
        }
        self.store.publish(&from, &to)
    }

    /// Writes a whole file: stages and publishes it at once.
    ///
    /// # Errors
    /// When it cannot be written; what was there before is then still there.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.store.write(&self.key(name)?, &name::join(&self.prefix, &name::staged_beside(name)?), bytes)
    }

    /// Removes what crashed writers left directly in this directory, and gives the names.
    ///
    /// Another process may be staging here right now. So only what nobody has written to for `older_than` is removed;
    /// the ages are taken from the times that the file system or store gives.
    ///
    /// # Errors
    /// When the directory cannot be listed, or a file cannot be removed.
    pub fn sweep_staged(&self, older_than: Duration) -> Result<Vec<String>> {
        let now = SystemTime::now();
        let mut swept = Vec::new();
        for entry in self.store.list(&self.prefix)?.files {
            let age = now.duration_since(entry.modified).unwrap_or_default();
            if name::is_staged(&entry.name) && age >= older_than {
                self.remove(&entry.name)?;
                swept.push(entry.name);
            }
        }
        swept.sort_unstable();
        Ok(swept)
    }

    /// The bytes of a file of at most `limit` bytes.
    ///
    /// # Errors
    /// When it is absent, longer, or cannot be read.
    pub fn read(&self, name: &str, limit: u64) -> Result<Vec<u8>> {
        self.try_read(name, limit)?.ok_or_else(|| self.absent(name))
    }

    /// Like [`Dir::read`], with nothing for a file that is absent.
    ///
    /// # Errors
    /// When it is longer, or cannot be read.
    pub fn try_read(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>> {
        self.store.read(&self.key(name)?, limit)
    }

    /// How many bytes a file has; nothing if it is absent.
    ///
    /// # Errors
    /// When that cannot be found out.
    pub fn size(&self, name: &str) -> Result<Option<u64>> {
        self.store.size(&self.key(name)?)
    }

    /// Opens a file to read in order or by position.
    ///
    /// # Errors
    /// When it is absent or cannot be read.
    pub fn open_read(&self, name: &str) -> Result<ReadFile> {
        let key = self.key(name)?;
        let source = self.store.open(&key)?.ok_or_else(|| self.absent(name))?;
        Ok(ReadFile::new(source, self.store.place(&key)))
    }

    /// The files directly in this directory whose names start with `prefix`, by name. Staged files are left out; a
    /// directory that does not exist has no files.
    ///
    /// # Errors
    /// When the directory cannot be listed.
    pub fn list(&self, prefix: &str) -> Result<Vec<Entry>> {
        if prefix.contains('/') {
            let error = Error::new(Code::StorageLocation, format!("cannot list names that start with {prefix:?}"));
            return Err(error.because("names in a directory have no slash").help("list the child directory instead"));
        }
        let mut files = self.store.list(&self.prefix)?.files;
        files.retain(|entry| entry.name.starts_with(prefix) && !name::is_staged(&entry.name));
        files.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(files)
    }

    /// The directories directly in this one, by name.
    ///
    /// # Errors
    /// When the directory cannot be listed.
    pub fn list_dirs(&self) -> Result<Vec<String>> {
        let folders = self.store.list(&self.prefix)?.folders;
        let mut names: Vec<String> = folders.into_iter().map(|folder| folder.name).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// The files below this directory that a pattern matches; see [`glob`](crate::glob()).
    ///
    /// # Errors
    /// When the pattern leads elsewhere, a directory cannot be listed, or a local name that matches is not UTF-8.
    pub fn find(&self, pattern: &str) -> Result<Vec<(Self, String)>> {
        crate::glob::find(self, pattern)
    }

    /// Removes a file, if it is there.
    ///
    /// # Errors
    /// When it is there and cannot be removed.
    pub fn remove(&self, name: &str) -> Result<()> {
        self.store.remove(&self.key(name)?)
    }

    /// Opens a file to add to its end, and makes it if it is absent.
    ///
    /// # Errors
    /// When it cannot be opened, or this store cannot append ([`Dir::can_append`]); [`Roll`](crate::Roll) works on all.
    pub fn append(&self, name: &str) -> Result<AppendFile> {
        self.store.append(&self.key(name)?)
    }

    /// Everything directly in this directory.
    pub(crate) fn contents(&self) -> Result<crate::store::Listing> {
        self.store.list(&self.prefix)
    }

    /// The full location of a file, as errors show it.
    pub(crate) fn place(&self, name: &str) -> String {
        self.store.place(&name::join(&self.prefix, name))
    }

    fn key(&self, name: &str) -> Result<String> {
        name::check(name)?;
        Ok(name::join(&self.prefix, name))
    }

    fn absent(&self, name: &str) -> Error {
        let error = Error::new(Code::StorageRead, "cannot read the file").at(self.place(name));
        error.because("there is no such file").help("check the location and the name")
    }
}

impl std::fmt::Display for Dir {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.location())
    }
}

impl std::fmt::Debug for Dir {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Dir").field(&self.location()).finish()
    }
}
