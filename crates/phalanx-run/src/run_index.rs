//! The runs of a folder, kept up to date.

use crate::{JobState, RunDir, RunFolder, RunSummary, RunTailer};
use phalanx_base::{Code, Context, Result};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

/// The list of the runs in a folder, which a thread keeps up to date. The thread ends when the last clone is dropped. A disk
/// that hangs blocks only that thread.
#[derive(Clone, Debug)]
pub struct RunIndex {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    folder: RunFolder,
    /// Newest first.
    summaries: Mutex<Vec<RunSummary>>,
}

impl RunIndex {
    /// Lists the runs of `folder`, and looks for changes at this interval.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(folder: RunFolder, interval: Duration) -> Result<Self> {
        let shared = Arc::new(Shared { folder, summaries: Mutex::default() });
        let weak = Arc::downgrade(&shared);
        let look = move || {
            let mut entries = BTreeMap::new();
            while let Some(shared) = Weak::upgrade(&weak) {
                shared.look(&mut entries);
                drop(shared);
                std::thread::sleep(interval);
            }
        };
        let thread = std::thread::Builder::new().name("phalanx-index".into()).spawn(look);
        thread.context(Code::Internal, "the thread that lists the runs cannot be started")?;
        Ok(Self { shared })
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &RunFolder {
        &self.shared.folder
    }

    /// The runs that have been read so far, newest first.
    #[must_use]
    pub fn summaries(&self) -> Vec<RunSummary> {
        self.shared.summaries().clone()
    }
}

/// What is known about one run.
struct Entry {
    /// When its newest file was written at the last look.
    written: Option<SystemTime>,
    summary: RunSummary,
    /// Follows a run that goes on. One that has ended is read once and again after a change.
    tailer: Option<RunTailer>,
}

impl Shared {
    fn summaries(&self) -> MutexGuard<'_, Vec<RunSummary>> {
        self.summaries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self, entries: &mut BTreeMap<String, Entry>) {
        let names = self.folder.runs();
        entries.retain(|name, _| names.contains(name));
        let first = self.summaries().is_empty();
        for name in &names {
            let run = RunDir::at(self.folder.root().join(name));
            let before = entries.remove(name);
            entries.insert(name.clone(), Entry::read(name, &run, before));
            if first {
                // There may be many; those that have been read are shown.
                self.publish(&names, entries);
            }
        }
        self.publish(&names, entries);
    }

    fn publish(&self, names: &[String], entries: &BTreeMap<String, Entry>) {
        let list = names.iter().filter_map(|name| entries.get(name)).map(|entry| entry.summary.clone()).collect();
        *self.summaries() = list;
    }
}

impl Entry {
    fn read(name: &str, run: &RunDir, before: Option<Self>) -> Self {
        let written = newest_file(run);
        let changes = before.as_ref().is_some_and(|before| before.written != written);
        let mut tailer = match before {
            Some(Self { tailer: Some(tailer), .. }) => tailer,
            Some(entry) if entry.written == written => return entry,
            _ => RunTailer::new(run, false),
        };
        tailer.poll();
        let summary = tailer.state().summary(name);
        // Without a launcher, only its files show whether a training goes on.
        let goes_on = match tailer.state().state {
            JobState::Running => true,
            JobState::Unknown => changes,
            _ => false,
        };
        let tailer = goes_on.then_some(tailer);
        Self { written, summary, tailer }
    }
}

/// When the newest file of a run was written: those of the launcher, and those of training and of evaluations.
fn newest_file(run: &RunDir) -> Option<SystemTime> {
    let below = |dir: &Path| {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        entries.filter_map(|entry| Some((entry.path(), entry.metadata().ok()?))).collect::<Vec<_>>()
    };
    let (mut newest, mut dirs) = (None, Vec::new());
    for (path, about) in below(run.root()) {
        if about.is_dir() {
            dirs.push(path);
        }
        newest = newest.max(about.modified().ok());
    }
    for (_, about) in dirs.iter().flat_map(|dir| below(dir)) {
        newest = newest.max(about.modified().ok());
    }
    newest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Runs;
    use std::time::Instant;

    fn wait_for(index: &RunIndex, what: impl Fn(&[RunSummary]) -> bool) -> Vec<RunSummary> {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let summaries = index.summaries();
            if what(&summaries) {
                return summaries;
            }
            assert!(Instant::now() < until, "{summaries:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn runs_that_appear_end_and_vanish_are_followed() {
        let dir = tempfile::tempdir().unwrap();
        let run = |name: &str| RunDir::at(dir.path().join(name));
        let events = |name: &str, kinds: &[&str]| {
            run(name).create().unwrap();
            let lines: String = kinds.iter().map(|kind| format!("{{\"at\":5,\"kind\":{kind}}}\n")).collect();
            std::fs::write(run(name).events_file(), lines).unwrap();
        };
        let finished = r#""finished","outcome":"failed""#;
        events("old", &[r#""launched""#, finished]);
        let Ok(Runs::Many(folder)) = Runs::find(dir.path()) else { panic!("a folder of runs") };
        let index = RunIndex::start(folder, Duration::from_millis(5)).unwrap();
        let seen = wait_for(&index, |all| !all.is_empty());
        assert_eq!((seen[0].name.as_str(), seen[0].state), ("old", "failed"));
        events("new", &[r#""launched""#]);
        wait_for(&index, |all| all.iter().any(|one| one.name == "new" && one.state == "running"));
        events("new", &[r#""launched""#, finished]);
        wait_for(&index, |all| all.iter().any(|one| one.name == "new" && one.state == "failed"));
        // A directory is used again after its run has ended.
        events("old", &[r#""launched""#, finished, r#""launched""#]);
        wait_for(&index, |all| all.iter().any(|one| one.name == "old" && one.state == "running"));
        std::fs::remove_dir_all(run("new").root()).unwrap();
        wait_for(&index, |all| all.iter().all(|one| one.name == "old"));
    }
}
