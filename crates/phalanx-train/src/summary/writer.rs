//! Takes summaries without ever making training wait.

use super::event_log::{Entry, EventLog};
use crate::Say;
use phalanx_base::{Code, Context, Result};
use phalanx_formats::event::SessionStatus;
use phalanx_storage::Dir;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// So many summaries wait to be written; when there are more, the newest are dropped and counted.
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
    /// A writer into `dir`. The file comes into being with the first summary.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn open(dir: &Dir) -> Result<Self> {
        Self::open_with(dir, std::sync::Arc::new(|line| eprintln!("{line}")))
    }

    /// The same, with somebody to tell when summaries cannot be written.
    pub(crate) fn open_with(dir: &Dir, say: Say) -> Result<Self> {
        let (queue, entries) = sync_channel::<Entry>(QUEUE);
        let mut log = EventLog::new(dir.clone(), say);
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

    /// A writer that writes nothing: what tasks have that are not the chief.
    #[must_use]
    pub fn none() -> Self {
        Self { queue: None, thread: None, dropped: AtomicU64::new(0) }
    }

    /// A point of a curve.
    pub fn scalar(&self, step: u64, tag: &str, value: f32) {
        self.put(|| Entry::Scalar(step, tag.to_owned(), value));
    }

    /// The distribution of values.
    pub fn histogram(&self, step: u64, tag: &str, values: &[f32]) {
        self.put(|| Entry::Histogram(step, tag.to_owned(), values.to_vec()));
    }

    /// How often each whole number from 0 came; nothing where none did.
    pub fn counts(&self, step: u64, tag: &str, counts: &[u64]) {
        if !counts.is_empty() {
            self.put(|| Entry::Counts(step, tag.to_owned(), counts.to_vec()));
        }
    }

    /// A text; TensorBoard shows it as Markdown.
    pub fn text(&self, step: u64, tag: &str, text: &str) {
        self.put(|| Entry::Text(step, tag.to_owned(), text.to_owned()));
    }

    /// A picture as a PNG file of that many pixels.
    pub fn image(&self, step: u64, tag: &str, png: &[u8], (width, height): (u32, u32)) {
        self.put(|| Entry::Image(step, tag.to_owned(), png.to_vec(), width, height));
    }

    /// Says that training starts at `step`: TensorBoard drops what a former life wrote beyond it.
    pub(crate) fn started(&self, step: u64) {
        self.put(|| Entry::Session(step, SessionStatus::Start));
    }

    pub(crate) fn saved(&self, step: u64, checkpoint: &str) {
        self.put(|| Entry::Session(step, SessionStatus::Checkpoint(checkpoint.to_owned())));
    }

    pub(crate) fn stopped(&self, step: u64) {
        self.put(|| Entry::Session(step, SessionStatus::Stop));
    }

    /// Summaries dropped because they came faster than they could be written.
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
    fn a_directory_that_cannot_be_written_is_said_once_and_stops_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a file");
        std::fs::write(&file, "x").unwrap();
        let said = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let heard = std::sync::Arc::clone(&said);
        let say: Say = std::sync::Arc::new(move |line: &str| heard.lock().unwrap().push(line.to_owned()));
        let writer = SummaryWriter::open_with(&Dir::local(file.join("below")), say).unwrap();
        (0..50).for_each(|step| writer.scalar(step, "loss", 0.0));
        drop(writer);
        let said = said.lock().unwrap();
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("summaries"), "{said:?}");
    }
}
