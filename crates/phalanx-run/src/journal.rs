//! Writes the launcher's files of a run.

use crate::run_dir::{RunLock, append, write_atomically};
use crate::{Event, JobFile, RunDir, timestamp};
use phalanx_base::{Code, Context, Result, TaskId};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Lines and events that may wait for the disk; when the queue is full, further ones are dropped and counted.
const QUEUE: usize = 4096;
/// How long to wait for a full queue before anything is dropped.
const STALLED: Duration = Duration::from_millis(100);
/// How long lines stay in memory when nothing follows, and how often the directory is checked.
const ROUND: Duration = Duration::from_millis(20);
const CHECK: Duration = Duration::from_secs(1);
/// How long the end of a job waits for its last lines to be written.
const LAST: Duration = Duration::from_secs(2);

enum Entry {
    Line { task: TaskId, at_ms: u64, text: String },
    Event(String),
    End,
}

/// Writes `job.json`, `events.jsonl` and the tasks' logs on its own thread, so that a disk that hangs delays neither restarts nor
/// Ctrl-C. No call waits for such a disk.
#[derive(Debug)]
pub struct Journal {
    queue: SyncSender<Entry>,
    problems: Receiver<String>,
    writer: Option<JoinHandle<()>>,
    /// Lines of each task that were dropped since the last one that was accepted.
    gaps: BTreeMap<TaskId, u64>,
    dropped: u64,
    /// Whether the queue stayed full for [`STALLED`]: then no call waits until it moves.
    stalled: bool,
}

impl Journal {
    /// Creates the directories, locks out other launchers, and writes `job.json`.
    ///
    /// # Errors
    /// If the directory cannot be written, or if another launcher uses it.
    pub fn open(run: &RunDir, job: &JobFile) -> Result<Self> {
        run.create()?;
        let lock = run.lock()?;
        run.status().clear().map_err(|error| run.not_writable(error))?;
        let job = serde_json::to_string_pretty(job).context(Code::Internal, "job.json cannot be serialized")?;
        write_atomically(&run.job_file(), &job).map_err(|error| run.not_writable(error))?;
        let events = append(&run.events_file()).map_err(|error| run.not_writable(error))?;
        let (queue, entries) = sync_channel(QUEUE);
        let (report, problems) = channel();
        let id = identity(run).ok();
        let logs = BTreeMap::new();
        let mut writer = Writer { run: run.clone(), job, lock: Some(lock), id, events, logs, report, reported: false };
        let thread = std::thread::Builder::new().name("phalanx-journal".into());
        let writer = thread
            .spawn(move || writer.write(&entries))
            .context(Code::Internal, "the thread that writes the logs cannot be started")?;
        Ok(Self { queue, problems, writer: Some(writer), gaps: BTreeMap::new(), dropped: 0, stalled: false })
    }

    /// Appends an event to `events.jsonl`.
    pub fn event(&mut self, event: &Event) {
        self.put(Entry::Event(event.to_line() + "\n"));
    }

    /// Appends a line to a task's log.
    pub fn line(&mut self, task: TaskId, at_ms: u64, text: &str) {
        if let Some(gap) = self.gaps.get(&task).copied() {
            let text = format!("[phalanx] {gap} lines were dropped here: the disk was too slow");
            if !self.put(Entry::Line { task, at_ms, text }) {
                self.gaps.insert(task, gap + 1);
                return;
            }
            self.gaps.remove(&task);
        }
        if !self.put(Entry::Line { task, at_ms, text: text.to_owned() }) {
            *self.gaps.entry(task).or_default() += 1;
        }
    }

    /// Queues an entry, or counts it as dropped. A program that prints faster than the disk writes is slowed down; a disk
    /// that does not progress for [`STALLED`] is not waited for again.
    fn put(&mut self, entry: Entry) -> bool {
        let until = Instant::now() + STALLED;
        let mut waiting = Some(entry);
        while let Some(entry) = waiting.take() {
            waiting = match self.queue.try_send(entry) {
                Err(TrySendError::Full(entry)) => Some(entry),
                // Without a writer nothing is kept, which has been reported.
                Ok(()) | Err(TrySendError::Disconnected(_)) => None,
            };
            self.stalled &= waiting.is_some();
            if waiting.is_some() {
                if self.stalled || Instant::now() > until {
                    self.stalled = true;
                    self.dropped += 1;
                    return false;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        true
    }

    /// The number of lines and events that were dropped so far.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Messages about what went wrong since the last call.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        self.problems.try_iter().collect()
    }

    /// Waits a moment until everything is written, and returns whether it is. A writer that the disk blocks is left behind.
    pub fn close(&mut self) -> bool {
        let until = Instant::now() + LAST;
        let mut end = Some(Entry::End);
        while let Some(writer) = &self.writer {
            if let Some(entry) = end.take()
                && let Err(TrySendError::Full(entry)) = self.queue.try_send(entry)
            {
                end = Some(entry);
            }
            if writer.is_finished() {
                let _ = self.writer.take().map(JoinHandle::join);
            } else if Instant::now() > until {
                return false;
            } else {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        true
    }
}

/// The thread that owns the files.
struct Writer {
    run: RunDir,
    job: String,
    /// Held until the end.
    lock: Option<RunLock>,
    /// The identity of the directory, whatever its name.
    id: Option<(u64, u64)>,
    events: File,
    logs: BTreeMap<TaskId, BufWriter<File>>,
    report: Sender<String>,
    reported: bool,
}

impl Writer {
    fn write(&mut self, entries: &Receiver<Entry>) {
        let mut checked = Instant::now();
        loop {
            let done = match entries.recv_timeout(ROUND) {
                Ok(Entry::Line { task, at_ms, text }) => self.line(task, at_ms, &text),
                // Written after the lines that were printed before it.
                Ok(Entry::Event(text)) => self.flush().and_then(|()| self.event(&text)),
                Err(RecvTimeoutError::Timeout) => self.flush(),
                Ok(Entry::End) | Err(RecvTimeoutError::Disconnected) => break,
            };
            self.report_once(done);
            if checked.elapsed() >= CHECK {
                checked = Instant::now();
                self.check_directory();
            }
        }
        let done = self.flush();
        self.report_once(done);
    }

    /// Reports the first failure. A full disk does not stop training, and every write is tried again.
    fn report_once(&mut self, done: Result<()>) {
        if let Err(error) = done
            && !std::mem::replace(&mut self.reported, true)
        {
            let _ = self.report.send(format!("the job continues, but not all of its logs are kept: {error}"));
        }
    }

    fn event(&mut self, text: &str) -> Result<()> {
        self.events.write_all(text.as_bytes()).context(Code::StorageWrite, "events cannot be written")
    }

    fn line(&mut self, task: TaskId, at_ms: u64, text: &str) -> Result<()> {
        let what = "a log cannot be written";
        let file = match self.logs.entry(task) {
            std::collections::btree_map::Entry::Occupied(file) => file.into_mut(),
            std::collections::btree_map::Entry::Vacant(empty) => {
                let file = append(&self.run.log_of(task)).context(Code::StorageWrite, what)?;
                empty.insert(BufWriter::new(file))
            }
        };
        writeln!(file, "{} {text}", timestamp(at_ms)).context(Code::StorageWrite, what)
    }

    fn flush(&mut self) -> Result<()> {
        let mut logs = self.logs.values_mut();
        logs.try_for_each(Write::flush).context(Code::StorageWrite, "a log cannot be written")
    }

    /// Creates the directory again if it was removed, so that the rest of the run is kept.
    fn check_directory(&mut self) {
        match identity(&self.run) {
            Ok(id) if self.id == Some(id) => return,
            // A disk that does not respond has lost nothing yet.
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return,
            _ => {}
        }
        let created = self.create_again();
        let what = format!("the run directory {} was removed while the job is running", self.run.root().display());
        match created {
            Ok(()) => {
                let text = format!("{what}; it was recreated, and earlier logs are lost");
                let _ = self.report.send(text);
            }
            Err(error) => self.report_once(Err(error.because(what))),
        }
    }

    fn create_again(&mut self) -> Result<()> {
        self.run.create()?;
        self.lock = Some(self.run.lock()?);
        self.logs.clear();
        write_atomically(&self.run.job_file(), &self.job).map_err(|error| self.run.not_writable(error))?;
        self.events = append(&self.run.events_file()).map_err(|error| self.run.not_writable(error))?;
        self.id = identity(&self.run).ok();
        Ok(())
    }
}

/// The device and inode of the directory with the logs.
fn identity(run: &RunDir) -> std::io::Result<(u64, u64)> {
    std::fs::metadata(run.logs()).map(|about| (about.dev(), about.ino()))
}
