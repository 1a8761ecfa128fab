//! Reads an object by ranges.

use super::objects::Objects;
use crate::fault;
use crate::store::{Source, Store};
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore};
use std::io;
use std::sync::{Mutex, PoisonError};

/// How much is fetched when a reader goes on where it was: enough to hide that each request takes its time.
const AHEAD_BYTES: u64 = 8 << 20;
/// How much is fetched at least, when a reader jumps.
const JUMP_BYTES: u64 = 64 << 10;

/// One version of an object.
pub(crate) struct ObjectSource {
    objects: Objects,
    key: String,
    meta: ObjectMeta,
    /// What was fetched last. The lock is never held while something is fetched.
    window: Mutex<Window>,
}

#[derive(Default)]
struct Window {
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Copies what it has from `offset` on.
    fn copy(&self, offset: u64, buf: &mut [u8]) -> usize {
        let skip = offset.checked_sub(self.start).and_then(|skip| usize::try_from(skip).ok());
        let rest = skip.and_then(|skip| self.bytes.get(skip..)).unwrap_or_default();
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        len
    }
}

impl ObjectSource {
    pub(crate) fn new(objects: Objects, key: String, meta: ObjectMeta) -> Self {
        Self { objects, key, meta, window: Mutex::default() }
    }

    fn fetch(&self, start: u64, end: u64) -> phalanx_base::Result<Vec<u8>> {
        let (path, store) = (self.meta.location.clone(), self.objects.store.clone());
        let options = GetOptions {
            range: Some(GetRange::Bounded(start..end)),
            // Ranges of two versions must never be mixed.
            if_match: self.meta.e_tag.clone(),
            ..GetOptions::default()
        };
        let job = self.objects.reads("read the file", &self.key);
        let bytes = self.objects.run(&job, async move { store.get_opts(&path, options).await?.bytes().await })?;
        let gone = || {
            let error = phalanx_base::Error::new(job.code, "cannot read the file").at(self.objects.place(&self.key));
            error.because("it was removed while it was read").help("open a file that is still there")
        };
        Ok(bytes.ok_or_else(gone)?.into())
    }
}

impl Source for ObjectSource {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() || offset >= self.meta.size {
            return Ok(0);
        }
        let lock = || self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let goes_on = {
            let window = lock();
            match window.copy(offset, buf) {
                0 => offset == window.end(),
                copied => return Ok(copied),
            }
        };
        let wanted = (buf.len() as u64).max(if goes_on { AHEAD_BYTES } else { JUMP_BYTES });
        let end = offset.saturating_add(wanted).min(self.meta.size);
        let bytes = self.fetch(offset, end).map_err(|error| fault::as_io(error, io::ErrorKind::Other))?;
        let window = Window { start: offset, bytes };
        let copied = window.copy(offset, buf);
        *lock() = window;
        Ok(copied)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.meta.size)
    }
}
