//! Writes summaries without blocking training.

use super::Picture;
use super::event_log::{Entry, EventLog};
use crate::logging::LogScope;
use phalanx_base::{Code, Context, Result};
use phalanx_formats::event::{Bucket, SessionStatus, buckets};
use phalanx_storage::Dir;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The most summaries that wait to be written; more are dropped and counted.
const QUEUE: usize = 1024;

/// Writes summaries into event files, on a thread of its own.
///
/// ```
/// use phalanx_storage::Dir;
/// use phalanx_train::SummaryWriter;
/// let dir = Dir::in_memory();
/// let writer = SummaryWriter::open(&dir)?;
/// writer.scalar(3, "accuracy", 0.9);
/// drop(writer); // writes what is left
/// assert_eq!(dir.list("events.out.tfevents.")?.len(), 1);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
pub struct SummaryWriter {
    queue: Option<SyncSender<Entry>>,
    thread: Option<JoinHandle<()>>,
    dropped: AtomicU64,
}

impl SummaryWriter {
    /// Creates a writer into `dir`. The first summary creates the file.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn open(dir: &Dir) -> Result<Self> {
        let (queue, entries) = sync_channel::<Entry>(QUEUE);
        let mut log = EventLog::new(dir.clone(), LogScope::current());
        let flush = log.flush_every();
        let write = move || {
            let mut flushed = Instant::now();
            loop {
                match entries.recv_timeout(Duration::from_millis(500)) {
                    Ok(entry) => log.write(entry),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return log.flush(),
                }
                if flushed.elapsed() >= flush {
                    log.flush();
                    flushed = Instant::now();
                }
            }
        };
        let thread = std::thread::Builder::new().name("phalanx-summary".into()).spawn(write);
        let thread = thread.context(Code::Internal, "the thread that writes summaries cannot be started")?;
        Ok(Self { queue: Some(queue), thread: Some(thread), dropped: AtomicU64::new(0) })
    }

    /// Creates a writer that writes nothing, as tasks other than the chief have.
    #[must_use]
    pub fn none() -> Self {
        Self { queue: None, thread: None, dropped: AtomicU64::new(0) }
    }

    /// Returns whether anything is written.
    pub(crate) fn is_on(&self) -> bool {
        self.queue.is_some()
    }

    /// Adds a point to a curve.
    pub fn scalar(&self, step: u64, tag: &str, value: f32) {
        self.put(|| Entry::Scalar(step, tag.to_owned(), value));
    }

    /// Adds learning rates: the first as `learning_rate`, the others as `learning_rate_1` and so on.
    pub(crate) fn learning_rates(&self, step: u64, rates: &[f32]) {
        for (at, rate) in rates.iter().enumerate() {
            let tag = if at == 0 { "learning_rate".to_owned() } else { format!("learning_rate_{at}") };
            self.scalar(step, &tag, *rate);
        }
    }

    /// Adds the distribution of values. Only their counts in 30 buckets wait to be written.
    pub fn histogram(&self, step: u64, tag: &str, values: &[f32]) {
        self.put(|| Entry::Histogram(step, tag.to_owned(), buckets(values)));
    }

    /// Adds a histogram of the integers from 0, given their counts; nothing where there are none.
    pub fn counts(&self, step: u64, tag: &str, counts: &[u64]) {
        let bucket = |(at, &count): (usize, &u64)| {
            let left = at as f64;
            Bucket { left, right: left + 1.0, count: count as f64 }
        };
        if !counts.is_empty() {
            self.put(|| Entry::Histogram(step, tag.to_owned(), counts.iter().enumerate().map(bucket).collect()));
        }
    }

    /// Adds a text; TensorBoard shows it as Markdown.
    pub fn text(&self, step: u64, tag: &str, text: &str) {
        self.put(|| Entry::Text(step, tag.to_owned(), text.to_owned()));
    }

    /// Adds a picture.
    ///
    /// ```
    /// use phalanx_storage::Dir;
    /// use phalanx_train::{Picture, SummaryWriter};
    /// let writer = SummaryWriter::open(&Dir::in_memory())?;
    /// writer.image(3, "digit", &Picture::from_floats(&[0.0, 0.5, 0.5, 1.0], (2, 2), 1)?);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    pub fn image(&self, step: u64, tag: &str, picture: &Picture) {
        self.put(|| Entry::Image(step, tag.to_owned(), picture.clone()));
    }

    /// Marks that training starts at `step`: TensorBoard drops what a former incarnation wrote beyond it.
    pub(crate) fn started(&self, step: u64) {
        self.put(|| Entry::Session(step, SessionStatus::Start));
    }

    pub(crate) fn saved(&self, step: u64, checkpoint: &str) {
        self.put(|| Entry::Session(step, SessionStatus::Checkpoint(checkpoint.to_owned())));
    }

    pub(crate) fn stopped(&self, step: u64) {
        self.put(|| Entry::Session(step, SessionStatus::Stop));
    }

    /// Returns the number of summaries dropped because they came faster than they could be written.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    fn put(&self, entry: impl FnOnce() -> Entry) {
        if let Some(queue) = &self.queue
            && queue.try_send(entry()).is_err()
        {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for SummaryWriter {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_formats::event::EventReader;

    #[test]
    fn what_was_taken_is_in_the_file_when_the_writer_is_gone() {
        let dir = Dir::in_memory();
        let writer = SummaryWriter::open(&dir).unwrap();
        writer.started(7);
        for step in 7..107 {
            writer.scalar(step, "loss", step as f32);
        }
        writer.histogram(7, "weights", &[1.0, 2.0]);
        writer.text(7, "note", "hello");
        assert_eq!(writer.dropped(), 0);
        drop(writer);
        let files = dir.list("events.out.tfevents.").unwrap();
        let mut events = 0;
        for file in &files {
            let bytes = dir.read(&file.name, 1 << 20).unwrap();
            let mut reader = EventReader::new(&bytes[..]);
            while reader.next_event().unwrap().is_some() {
                events += 1;
            }
        }
        assert_eq!(events, 103 + files.len());
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_logged_once_and_stops_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a file");
        std::fs::write(&file, "x").unwrap();
        let log = crate::testing::LogRecorder::default();
        let writer = log.record(|| SummaryWriter::open(&Dir::local(file.join("below")))).unwrap();
        (0..50).for_each(|step| writer.scalar(step, "loss", 0.0));
        drop(writer);
        let lines = log.lines();
        assert!(matches!(&lines[..], [line] if line.contains("summaries are not written")), "{lines:?}");
    }
}
