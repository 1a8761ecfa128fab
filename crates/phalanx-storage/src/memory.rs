//! Files in memory, for tests. Like an object store it has no directories and cannot append.

use crate::fault;
use crate::store::{Entry, Folder, Listing, Sink, Source, Store, too_long};
use phalanx_base::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

type Files = Arc<Mutex<BTreeMap<String, File>>>;

#[derive(Clone)]
struct File {
    bytes: Arc<Vec<u8>>,
    modified: SystemTime,
}

/// Files that live as long as somebody holds the store.
#[derive(Default)]
pub(crate) struct Memory {
    files: Files,
}

fn lock(files: &Files) -> MutexGuard<'_, BTreeMap<String, File>> {
    // The map is whole after every statement, so a panic elsewhere does not harm it.
    files.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Memory {
    fn get(&self, key: &str) -> Option<Arc<Vec<u8>>> {
        lock(&self.files).get(key).map(|file| file.bytes.clone())
    }
}

impl Store for Memory {
    fn place(&self, key: &str) -> String {
        format!("memory:{key}")
    }

    fn create_all(&self, _key: &str) -> Result<()> {
        Ok(())
    }

    fn stage(&self, key: &str) -> Result<Box<dyn Sink>> {
        Ok(Box::new(MemorySink { files: self.files.clone(), key: key.to_owned(), bytes: Vec::new() }))
    }

    fn publish(&self, staged: &str, to: &str) -> Result<()> {
        let mut files = lock(&self.files);
        match files.remove(staged) {
            Some(file) => {
                files.insert(to.to_owned(), file);
                Ok(())
            }
            None => Err(fault::write("publish the file", &self.place(staged), &io::ErrorKind::NotFound.into())),
        }
    }

    fn read(&self, key: &str, limit: u64) -> Result<Option<Vec<u8>>> {
        match self.get(key) {
            Some(bytes) if bytes.len() as u64 > limit => Err(too_long(self.place(key), bytes.len() as u64, limit)),
            bytes => Ok(bytes.map(|bytes| bytes.to_vec())),
        }
    }

    fn open(&self, key: &str) -> Result<Option<Box<dyn Source>>> {
        Ok(self.get(key).map(|bytes| Box::new(MemorySource(bytes)) as Box<dyn Source>))
    }

    fn size(&self, key: &str) -> Result<Option<u64>> {
        Ok(self.get(key).map(|bytes| bytes.len() as u64))
    }

    fn list(&self, key: &str) -> Result<Listing> {
        let prefix = if key.is_empty() { String::new() } else { format!("{key}/") };
        let (mut listing, mut folders) = (Listing::default(), BTreeSet::new());
        for (key, file) in lock(&self.files).range(prefix.clone()..) {
            let Some(name) = key.strip_prefix(&prefix) else { break };
            if let Some((folder, _)) = name.split_once('/') {
                folders.insert(folder.to_owned());
            } else {
                let size = file.bytes.len() as u64;
                listing.files.push(Entry { name: name.to_owned(), size, modified: file.modified });
            }
        }
        listing.folders = folders.into_iter().map(|name| Folder { name, link: false }).collect();
        Ok(listing)
    }

    fn remove(&self, key: &str) -> Result<()> {
        lock(&self.files).remove(key);
        Ok(())
    }
}

struct MemorySink {
    files: Files,
    key: String,
    bytes: Vec<u8>,
}

impl Sink for MemorySink {
    fn finish(&mut self) -> Result<()> {
        let bytes = Arc::new(std::mem::take(&mut self.bytes));
        lock(&self.files).insert(self.key.clone(), File { bytes, modified: SystemTime::now() });
        Ok(())
    }
}

impl Write for MemorySink {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.bytes.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct MemorySource(Arc<Vec<u8>>);

impl Source for MemorySource {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.0.get(offset..)).unwrap_or_default();
        let read = rest.len().min(buf.len());
        buf[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }
}
