//! Event files of one writer, one after the other where something goes wrong with one.

use crate::Say;
use crate::checkpoint::now;
use phalanx_base::Result;
use phalanx_formats::event::{Bucket, EventWriter, SessionStatus, Stamp, event_file_name};
use phalanx_storage::{Dir, Roll};
use std::time::{Duration, Instant};

/// After a failure, so long nothing is tried.
const PAUSE: Duration = Duration::from_secs(30);

/// Something to write, and the step it belongs to.
pub(super) enum Entry {
    Scalar(u64, String, f32),
    Histogram(u64, String, Vec<f32>),
    Counts(u64, String, Vec<u64>),
    Text(u64, String, String),
    Image(u64, String, Vec<u8>, u32, u32),
    Session(u64, SessionStatus),
}

/// Writes entries; what cannot be written is dropped, and said.
pub(super) struct EventLog {
    dir: Dir,
    say: Say,
    file: Option<EventWriter<Roll>>,
    failed: Option<Instant>,
    files: u64,
}

impl EventLog {
    pub(super) fn new(dir: Dir, say: Say) -> Self {
        Self { dir, say, file: None, failed: None, files: 0 }
    }

    /// Often enough to watch a run; seldom where every flush makes a file.
    pub(super) fn flush_every(&self) -> Duration {
        Duration::from_secs(if self.dir.can_append() { 2 } else { 120 })
    }

    pub(super) fn write(&mut self, entry: Entry) {
        if self.failed.is_some_and(|at| at.elapsed() < PAUSE) {
            return;
        }
        let written = self.try_write(&entry);
        self.note(written);
    }

    pub(super) fn flush(&mut self) {
        let flushed = self.file.as_mut().map_or(Ok(()), EventWriter::flush);
        self.note(flushed);
    }

    /// A file that failed may end in half a record: the next entries go to another.
    fn note(&mut self, result: Result<()>) {
        if let Err(error) = result {
            (self.say)(&format!("training goes on, but summaries are not written: {error}"));
            (self.file, self.failed) = (None, Some(Instant::now()));
        }
    }

    fn try_write(&mut self, entry: &Entry) -> Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(Self::open(&self.dir, &mut self.files)?),
        };
        let stamp = |step: u64| Stamp { wall_time: now(), step: step.cast_signed() };
        match entry {
            Entry::Scalar(step, tag, value) => file.scalar(stamp(*step), tag, *value),
            Entry::Histogram(step, tag, values) => file.histogram(stamp(*step), tag, values),
            Entry::Counts(step, tag, counts) => {
                let bucket = |(at, &count): (usize, &u64)| Bucket {
                    left: at as f64,
                    right: at as f64 + 1.0,
                    count: count as f64,
                };
                file.bucketed(stamp(*step), tag, &counts.iter().enumerate().map(bucket).collect::<Vec<_>>())
            }
            Entry::Text(step, tag, text) => file.text(stamp(*step), tag, text),
            Entry::Image(step, tag, png, width, height) => file.image(stamp(*step), tag, png, *width, *height),
            Entry::Session(step, status) => file.session_log(stamp(*step), status),
        }
    }

    fn open(dir: &Dir, files: &mut u64) -> Result<EventWriter<Roll>> {
        dir.create_all()?;
        let (started, host, count) = (now(), host(), *files);
        *files += 1;
        // Where files cannot grow there are many: each later than the one before, because TensorBoard reads them in the
        // order of their names.
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
