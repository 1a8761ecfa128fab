//! A bucket as a store.

use super::bridge::{Bridge, Pending};
use super::connect::{self, Limits};
use super::fault;
use super::source::ObjectSource;
use super::upload::Upload;
use crate::location::Scheme;
use crate::store::{Entry, Folder, Listing, Sink, Source, Store, too_long};
use object_store::path::Path;
use object_store::{Error as StoreError, ObjectStore, ObjectStoreExt};
use phalanx_base::{Code, Error, Result};
use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// A listing is several requests, one for a thousand names.
const LIST_REQUESTS: u32 = 5;

/// A bucket or container. Clones share its client.
#[derive(Clone)]
pub(crate) struct Objects {
    pub(super) store: Arc<dyn ObjectStore>,
    /// The same bucket, with the patience for copies.
    copier: Arc<dyn ObjectStore>,
    bridge: Arc<Bridge>,
    /// Scheme and bucket, as they were written.
    url: String,
    /// When one request with all its retries must be over.
    pub(super) patience: Duration,
}

impl Objects {
    /// A bucket, which is not asked for anything yet. `text` is the location it is taken from.
    pub(crate) fn open(text: &str, scheme: Scheme, bucket: &str) -> Result<Self> {
        let store = connect::client(text, scheme, bucket, Limits::USUAL)?;
        let copier = connect::client(text, scheme, bucket, Limits::COPY)?;
        Self::new(store, copier, format!("{}://{bucket}", scheme.name()), Limits::USUAL.total())
    }

    pub(crate) fn new(
        store: Arc<dyn ObjectStore>,
        copier: Arc<dyn ObjectStore>,
        url: String,
        patience: Duration,
    ) -> Result<Self> {
        Ok(Self { store, copier, bridge: Arc::new(Bridge::new()?), url, patience })
    }

    /// Starts some work that can go on beside other work.
    pub(super) fn start<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Pending<T> {
        self.bridge.start(work)
    }

    /// Does something and waits for it; nothing if the object is absent.
    pub(super) fn run<T: Send + 'static>(
        &self,
        job: &Job<'_>,
        work: impl Future<Output = object_store::Result<T>> + Send + 'static,
    ) -> Result<Option<T>> {
        match self.start(work).wait(job.limit) {
            Ok(Ok(value)) => Ok(Some(value)),
            Ok(Err(StoreError::NotFound { .. })) => Ok(None),
            Ok(Err(error)) => Err(fault::fault(job.code, job.doing, &self.place(job.key), &error)),
            Err(why) => Err(fault::no_answer(job.code, job.doing, &self.place(job.key), &why)),
        }
    }

    /// A job that reads.
    pub(super) fn reads<'a>(&self, doing: &'a str, key: &'a str) -> Job<'a> {
        Job { code: Code::StorageRead, doing, key, limit: self.patience }
    }

    /// A job that writes.
    pub(super) fn writes<'a>(&self, doing: &'a str, key: &'a str) -> Job<'a> {
        Job { code: Code::StorageWrite, doing, key, limit: self.patience }
    }

    /// The key as the client wants it: byte for byte, not percent-encoded.
    fn path(&self, key: &str) -> Result<Path> {
        Path::parse(key).map_err(|error| {
            let ours = Error::new(Code::StorageLocation, format!("{key:?} cannot name an object")).at(&self.url);
            ours.because(error).help("choose a name without control characters")
        })
    }

    fn gone(&self, job: &Job<'_>) -> Error {
        let error = Error::new(job.code, format!("cannot {}", job.doing)).at(self.place(job.key));
        error.because("there is no such bucket, or no such object in it").help("check the bucket and the location")
    }
}

/// What is being done, for whoever reads the error, and how long it may take.
pub(super) struct Job<'a> {
    pub(super) code: Code,
    pub(super) doing: &'a str,
    pub(super) key: &'a str,
    pub(super) limit: Duration,
}

impl Store for Objects {
    fn place(&self, key: &str) -> String {
        if key.is_empty() { self.url.clone() } else { format!("{}/{key}", self.url) }
    }

    fn create_all(&self, _key: &str) -> Result<()> {
        Ok(())
    }

    fn stage(&self, key: &str) -> Result<Box<dyn Sink>> {
        Ok(Box::new(Upload::new(self.clone(), key.to_owned(), self.path(key)?)))
    }

    fn publish(&self, staged: &str, to: &str) -> Result<()> {
        let (from, path, store) = (self.path(staged)?, self.path(to)?, self.copier.clone());
        let job = Job { limit: self.patience.max(Limits::COPY.total()), ..self.writes("publish the file", to) };
        let copied = self.run(&job, async move { store.copy(&from, &path).await })?;
        copied.ok_or_else(|| self.gone(&self.writes("publish the file", staged)))?;
        // It is published. That its temporary name stays is no failure of that; it is swept later.
        let _ = self.remove(staged);
        Ok(())
    }

    fn write(&self, key: &str, _staged: &str, bytes: &[u8]) -> Result<()> {
        // An upload is seen only when it is complete, so it needs no temporary name.
        let mut upload = Upload::new(self.clone(), key.to_owned(), self.path(key)?);
        let written = std::io::Write::write_all(&mut upload, bytes);
        written.map_err(|error| crate::fault::write("write the file", &self.place(key), &error))?;
        upload.finish()
    }

    fn read(&self, key: &str, limit: u64) -> Result<Option<Vec<u8>>> {
        let (path, store) = (self.path(key)?, self.store.clone());
        let answer = self.run(&self.reads("read the file", key), async move {
            let result = store.get(&path).await?;
            let size = result.meta.size;
            // What is too long is not fetched at all.
            Ok(if size > limit { Err(size) } else { Ok(result.bytes().await?) })
        })?;
        match answer {
            None => Ok(None),
            Some(Ok(bytes)) => Ok(Some(bytes.into())),
            Some(Err(size)) => Err(too_long(self.place(key), size, limit)),
        }
    }

    fn open(&self, key: &str) -> Result<Option<Box<dyn Source>>> {
        let (path, store) = (self.path(key)?, self.store.clone());
        let meta = self.run(&self.reads("open the file", key), async move { store.head(&path).await })?;
        Ok(meta.map(|meta| Box::new(ObjectSource::new(self.clone(), key.to_owned(), meta)) as Box<dyn Source>))
    }

    fn size(&self, key: &str) -> Result<Option<u64>> {
        let (path, store) = (self.path(key)?, self.store.clone());
        let meta = self.run(&self.reads("look at the file", key), async move { store.head(&path).await })?;
        Ok(meta.map(|meta| meta.size))
    }

    fn list(&self, key: &str) -> Result<Listing> {
        let store = self.store.clone();
        let path = if key.is_empty() { None } else { Some(self.path(key)?) };
        let job = Job { limit: self.patience * LIST_REQUESTS, ..self.reads("list the directory", key) };
        let listed = self.run(&job, async move { store.list_with_delimiter(path.as_ref()).await })?;
        // A prefix that is absent lists as empty; it is the bucket that is not there.
        let listed = listed.ok_or_else(|| self.gone(&job))?;
        let files = listed.objects.into_iter().filter_map(|meta| {
            let name = below(key, &meta.location)?;
            Some(Entry { name, size: meta.size, modified: meta.last_modified.into() })
        });
        let folders: BTreeSet<String> = listed.common_prefixes.iter().filter_map(|path| below(key, path)).collect();
        let folders = folders.into_iter().map(|name| Folder { name, link: false });
        Ok(Listing { files: files.collect(), folders: folders.collect(), odd: Vec::new() })
    }

    fn remove(&self, key: &str) -> Result<()> {
        let (path, store) = (self.path(key)?, self.store.clone());
        self.run(&self.writes("remove the file", key), async move { store.delete(&path).await }).map(|_| ())
    }
}

/// The name of `path` in the directory `key`.
fn below(key: &str, path: &Path) -> Option<String> {
    let rest = path.as_ref().strip_prefix(key)?;
    let rest = if key.is_empty() { rest } else { rest.strip_prefix('/')? };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    (!rest.is_empty()).then(|| rest.to_owned())
}
