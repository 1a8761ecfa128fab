//! Writes the files of a run, on a thread of its own: a disk that hangs stops neither restarts nor Ctrl-C.

use crate::clock::stamp;
use crate::run_dir::{RunLock, append, write_whole};
use crate::{Happened, RunDir};
use phalanx_base::{Code, Context, Result, TaskId};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Lines and events that wait for the disk; what comes while so many wait is dropped and counted.
const QUEUE: usize = 4096;
/// How long a full queue is waited for before anything is dropped.
const STALLED: Duration = Duration::from_millis(100);
/// How long lines stay in memory when nothing follows, and how often the directory is looked at.
const ROUND: Duration = Duration::from_millis(20);
const LOOK: Duration = Duration::from_secs(1);
/// How long the end of a job waits for its last lines to be written.
const LAST: Duration = Duration::from_secs(2);

enum Entry {
    Line { task: TaskId, at_ms: u64, text: String },
    Event(String),
    End,
}

/// The launcher's end of the journal. No call waits for a disk that hangs.
#[derive(Debug)]
pub(crate) struct Journal {
    queue: SyncSender<Entry>,
    troubles: Receiver<String>,
    writer: Option<JoinHandle<()>>,
    /// Lines of each task that were dropped since the last one that was taken.
    gaps: BTreeMap<TaskId, u64>,
    dropped: u64,
    /// Whether the queue stayed full although it was waited for: then nobody waits until it has moved.
    stalled: bool,
}

impl Journal {
    /// Makes the directories, keeps other launchers out, and says what is launched.
    pub(crate) fn open(run: &RunDir, job: &Value) -> Result<Self> {
        run.create()?;
        let lock = run.lock()?;
        // What a former run of the same directory said of itself is not true any more.
        for old in std::fs::read_dir(run.status()).map_err(|error| run.not_writable(error))?.flatten() {
            let _ = std::fs::remove_file(old.path());
        }
        let job = serde_json::to_string_pretty(job).context(Code::Internal, "the job cannot be described")?;
        write_whole(&run.job_file(), &job).map_err(|error| run.not_writable(error))?;
        let events = append(&run.events_file()).map_err(|error| run.not_writable(error))?;
        let (queue, entries) = sync_channel(QUEUE);
        let (tell, troubles) = channel();
        let id = identity(run).ok();
        let logs = BTreeMap::new();
        let mut writer = Writer { run: run.clone(), job, lock: Some(lock), id, events, logs, tell, complained: false };
        let thread = std::thread::Builder::new().name("phalanx-journal".into());
        let writer = thread.spawn(move || writer.write(&entries)).context(Code::Internal, "no thread for the logs")?;
        Ok(Self { queue, troubles, writer: Some(writer), gaps: BTreeMap::new(), dropped: 0, stalled: false })
    }

    pub(crate) fn event(&mut self, event: &Happened) {
        self.put(Entry::Event(format!("{}\n", event.to_json())));
    }

    pub(crate) fn line(&mut self, task: TaskId, at_ms: u64, text: &str) {
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

    /// Puts an entry into the queue, or counts it as dropped. A program that prints faster than the disk writes is slowed
    /// down; a disk that does not move for [`STALLED`] is not waited for again.
    fn put(&mut self, entry: Entry) -> bool {
        let until = Instant::now() + STALLED;
        let mut waiting = Some(entry);
        while let Some(entry) = waiting.take() {
            waiting = match self.queue.try_send(entry) {
                Err(TrySendError::Full(entry)) => Some(entry),
                // Without a writer nothing is kept, and that was said.
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

    /// How many lines and events were dropped so far.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// What went wrong since the last call, in words.
    pub(crate) fn troubles(&self) -> Vec<String> {
        self.troubles.try_iter().collect()
    }

    /// Waits a moment for what was said to be written; says whether all of it is. A writer that the disk holds is left.
    pub(crate) fn close(&mut self) -> bool {
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
    /// Held to the end.
    lock: Option<RunLock>,
    /// Which directory it is, behind its name.
    id: Option<(u64, u64)>,
    events: File,
    logs: BTreeMap<TaskId, BufWriter<File>>,
    tell: Sender<String>,
    complained: bool,
}

impl Writer {
    fn write(&mut self, entries: &Receiver<Entry>) {
        let mut looked = Instant::now();
        loop {
            let done = match entries.recv_timeout(ROUND) {
                Ok(Entry::Line { task, at_ms, text }) => self.line(task, at_ms, &text),
                // Written behind the lines that were printed before it.
                Ok(Entry::Event(text)) => self.flush().and_then(|()| self.event(&text)),
                Err(RecvTimeoutError::Timeout) => self.flush(),
                Ok(Entry::End) | Err(RecvTimeoutError::Disconnected) => break,
            };
            self.complain(done);
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                self.look();
            }
        }
        let done = self.flush();
        self.complain(done);
    }

    /// A disk that is full does not stop training: it is said once, and tried again.
    fn complain(&mut self, done: Result<()>) {
        if let Err(error) = done
            && !std::mem::replace(&mut self.complained, true)
        {
            let _ = self.tell.send(format!("the job goes on, but not all of its logs are kept: {error}"));
        }
    }

    fn event(&mut self, text: &str) -> Result<()> {
        self.events.write_all(text.as_bytes()).context(Code::StorageWrite, "events cannot be written")
    }

    fn line(&mut self, task: TaskId, at_ms: u64, text: &str) -> Result<()> {
        let wrong = "a log cannot be written";
        let file = match self.logs.entry(task) {
            std::collections::btree_map::Entry::Occupied(file) => file.into_mut(),
            std::collections::btree_map::Entry::Vacant(empty) => {
                let file = append(&self.run.log_of(task)).context(Code::StorageWrite, wrong)?;
                empty.insert(BufWriter::new(file))
            }
        };
        writeln!(file, "{} {text}", stamp(at_ms)).context(Code::StorageWrite, wrong)
    }

    fn flush(&mut self) -> Result<()> {
        let mut logs = self.logs.values_mut();
        logs.try_for_each(Write::flush).context(Code::StorageWrite, "a log cannot be written")
    }

    /// A directory that somebody removed is made again: the rest of the run is kept, and tasks find their place.
    fn look(&mut self) {
        match identity(&self.run) {
            Ok(id) if self.id == Some(id) => return,
            // A disk that does not answer has lost nothing yet.
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return,
            _ => {}
        }
        let made = self.make_again();
        let what = format!("the run directory {} was removed while the job is running", self.run.root().display());
        match made {
            Ok(()) => {
                let text = format!("{what}; it was recreated, and earlier logs are lost");
                let _ = self.tell.send(text);
            }
            Err(error) => self.complain(Err(error.because(what))),
        }
    }

    fn make_again(&mut self) -> Result<()> {
        self.run.create()?;
        self.lock = Some(self.run.lock()?);
        self.logs.clear();
        write_whole(&self.run.job_file(), &self.job).map_err(|error| self.run.not_writable(error))?;
        self.events = append(&self.run.events_file()).map_err(|error| self.run.not_writable(error))?;
        self.id = identity(&self.run).ok();
        Ok(())
    }
}

/// Which directory the logs are in, whatever its name.
fn identity(run: &RunDir) -> std::io::Result<(u64, u64)> {
    std::fs::metadata(run.logs()).map(|about| (about.dev(), about.ino()))
}
