//! Writes an object, in parts if it is large.

use super::bridge::Pending;
use super::fault;
use super::objects::Objects;
use crate::store::{Sink, Store};
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStoreExt, PutPayload};
use phalanx_base::Result;
use std::collections::VecDeque;
use std::io::{self, Write};

/// With the 10,000 parts that the stores allow this makes 160 GB.
const PART_BYTES: usize = 16 << 20;
/// How many parts are on their way at once.
const PARTS_AHEAD: usize = 3;

/// An object that is not there before it is finished.
pub(crate) struct Upload {
    objects: Objects,
    key: String,
    path: Path,
    part: Vec<u8>,
    /// Begun with the first full part: what is smaller is put at once.
    parts: Option<Box<dyn MultipartUpload>>,
    pending: VecDeque<Pending<object_store::Result<()>>>,
}

impl Upload {
    pub(crate) fn new(objects: Objects, key: String, path: Path) -> Self {
        Self { objects, key, path, part: Vec::new(), parts: None, pending: VecDeque::new() }
    }

    /// Sends the gathered part on its way.
    fn send(&mut self) -> Result<()> {
        if self.parts.is_none() {
            let (path, store) = (self.path.clone(), self.objects.store.clone());
            let job = self.objects.writes("write the file", &self.key);
            let begun = self.objects.run(&job, async move { store.put_multipart(&path).await })?;
            self.parts = Some(begun.ok_or_else(|| self.no_bucket())?);
        }
        if self.pending.len() >= PARTS_AHEAD {
            self.settle_one()?;
        }
        if let Some(parts) = &mut self.parts {
            let sent = parts.put_part(PutPayload::from(std::mem::take(&mut self.part)));
            self.pending.push_back(self.objects.start(sent));
        }
        Ok(())
    }

    /// Waits for the oldest part on its way.
    fn settle_one(&mut self) -> Result<()> {
        let Some(pending) = self.pending.pop_front() else { return Ok(()) };
        let job = self.objects.writes("write the file", &self.key);
        match pending.wait(job.limit) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(fault::fault(job.code, job.doing, &self.objects.place(&self.key), &error)),
            Err(why) => Err(fault::no_answer(job.code, job.doing, &self.objects.place(&self.key), &why)),
        }
    }

    fn no_bucket(&self) -> phalanx_base::Error {
        let error = phalanx_base::Error::new(phalanx_base::Code::StorageWrite, "cannot write the file");
        let error = error.at(self.objects.place(&self.key)).because("there is no such bucket");
        error.help("create the bucket, or correct the location")
    }

    fn put_at_once(&mut self) -> Result<()> {
        let (path, store) = (self.path.clone(), self.objects.store.clone());
        let payload = PutPayload::from(std::mem::take(&mut self.part));
        let job = self.objects.writes("write the file", &self.key);
        let put = self.objects.run(&job, async move { store.put(&path, payload).await })?;
        put.map(|_| ()).ok_or_else(|| self.no_bucket())
    }

    fn complete(&mut self) -> Result<()> {
        if !self.part.is_empty() {
            self.send()?;
        }
        while !self.pending.is_empty() {
            self.settle_one()?;
        }
        let Some(mut parts) = self.parts.take() else { return Ok(()) };
        let job = self.objects.writes("write the file", &self.key);
        let done = self.objects.run(&job, async move {
            let done = parts.complete().await;
            if done.is_err() {
                // The first error is the one to report.
                let _ = parts.abort().await;
            }
            done
        })?;
        done.map(|_| ()).ok_or_else(|| self.no_bucket())
    }
}

impl Sink for Upload {
    fn finish(&mut self) -> Result<()> {
        if self.parts.is_some() { self.complete() } else { self.put_at_once() }
    }
}

impl Write for Upload {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let room = PART_BYTES - self.part.len();
        let taken = buf.len().min(room);
        self.part.extend_from_slice(&buf[..taken]);
        if self.part.len() == PART_BYTES {
            self.send().map_err(|error| crate::fault::as_io(error, io::ErrorKind::Other))?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.pending.clear();
        if let Some(mut parts) = self.parts.take() {
            let job = self.objects.writes("give up the file", &self.key);
            // Nobody is left to tell. Parts that stay cost money until the bucket's own rules remove them.
            let _ = self.objects.run(&job, async move { parts.abort().await });
        }
    }
}
