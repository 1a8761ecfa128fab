//! The event files of one writer: a new one after each failure.

use super::Picture;
use crate::checkpoint::now;
use crate::logging::LogScope;
use phalanx_base::Result;
use phalanx_formats::event::{Bucket, EventTime, EventWriter, SessionStatus, event_file_name};
use phalanx_storage::{Dir, Roll};
use std::time::{Duration, Instant};

/// How long nothing is written after a failure.
const PAUSE: Duration = Duration::from_secs(30);

/// A summary, with its step.
pub(super) enum Entry {
    Scalar(u64, String, f32),
    Histogram(u64, String, Vec<Bucket>),
    Text(u64, String, String),
    Image(u64, String, Picture),
    Session(u64, SessionStatus),
}

/// Writes entries. Entries that cannot be written are dropped, and the failure is logged.
pub(super) struct EventLog {
    dir: Dir,
    log: LogScope,
    file: Option<EventWriter<Roll>>,
    failed: Option<Instant>,
    files: u64,
}

impl EventLog {
    pub(super) fn new(dir: Dir, log: LogScope) -> Self {
        Self { dir, log, file: None, failed: None, files: 0 }
    }

    /// Returns the flush interval: longer where every flush creates a file.
    pub(super) fn flush_every(&self) -> Duration {
        Duration::from_secs(if self.dir.can_append() { 2 } else { 120 })
    }

    pub(super) fn write(&mut self, entry: Entry) {
        if self.failed.is_some_and(|at| at.elapsed() < PAUSE) {
            return;
        }
        let written = self.try_write(&entry);
        self.check(written);
    }

    pub(super) fn flush(&mut self) {
        let flushed = self.file.as_mut().map_or(Ok(()), EventWriter::flush);
        self.check(flushed);
    }

    /// Logs a failure. The file may end in half a record, so the next entries go to another.
    fn check(&mut self, result: Result<()>) {
        if let Err(error) = result {
            self.log.run(|| {
                tracing::warn!(code = %error.code(), "training continues, but summaries are not written: {error}");
            });
            (self.file, self.failed) = (None, Some(Instant::now()));
        }
    }

    fn try_write(&mut self, entry: &Entry) -> Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(Self::open(&self.dir, &mut self.files)?),
        };
        let stamp = |step: u64| EventTime { wall_time: now(), step: step.cast_signed() };
        match entry {
            Entry::Scalar(step, tag, value) => file.scalar(stamp(*step), tag, *value),
            Entry::Histogram(step, tag, buckets) => file.bucketed(stamp(*step), tag, buckets),
            Entry::Text(step, tag, text) => file.text(stamp(*step), tag, text),
            Entry::Image(step, tag, Picture { png, width, height }) => {
                file.image(stamp(*step), tag, png, *width, *height)
            }
            Entry::Session(step, status) => file.session_log(stamp(*step), status),
        }
    }

    fn open(dir: &Dir, files: &mut u64) -> Result<EventWriter<Roll>> {
        dir.create_all()?;
        let (started, host, count) = (now(), host(), *files);
        *files += 1;
        // Where files cannot grow there are many. TensorBoard reads them in the order of their names.
        let name =
            move |number: u64| event_file_name(started as u64 + number, &host, std::process::id(), count + number);
        let header = EventWriter::new(Vec::new(), started)?.finish()?;
        Ok(EventWriter::headless(Roll::new(dir, header, name)?))
    }
}

fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "localhost".to_owned() } else { name.to_owned() }
}
