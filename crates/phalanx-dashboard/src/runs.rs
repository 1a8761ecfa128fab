//! The runs that the dashboard shows: one, or those of a folder.

use phalanx_base::{Code, Error, Result};
use phalanx_run::{RunIndex, SharedTailer};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often the files of a run that somebody looks at are read.
pub(crate) const POLL: Duration = Duration::from_millis(200);
/// The most runs of a folder that are followed. A further one replaces the one that was not looked at for longest.
const MAX_FOLLOWED: usize = 12;

/// A run that is followed.
pub(crate) struct FollowedRun {
    pub(crate) tailer: SharedTailer,
    /// When the job was launched that has been asked to stop.
    asked: Mutex<Option<u64>>,
}

/// What is shown.
pub(crate) enum Source {
    One(Arc<FollowedRun>),
    Folder { index: RunIndex, followed: Mutex<Vec<(String, Arc<FollowedRun>)>> },
}

impl FollowedRun {
    pub(crate) fn new(tailer: SharedTailer) -> Arc<Self> {
        Arc::new(Self { tailer, asked: Mutex::default() })
    }

    /// Asks the launcher of the run to stop it. A second request for the same job does nothing, because the launcher would kill
    /// the tasks that are saving.
    pub(crate) fn stop(&self) -> Result<()> {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let (started, stopping) = {
            let state = self.tailer.state();
            (state.job.as_ref().map(|job| job.started), state.is_stopping())
        };
        if stopping || (asked.is_some() && *asked == started) {
            return Ok(());
        }
        self.tailer.run().request_stop()?;
        *asked = started;
        Ok(())
    }
}

impl Source {
    pub(crate) fn of_folder(index: RunIndex) -> Self {
        Self::Folder { index, followed: Mutex::default() }
    }

    /// Returns the run with this name; the only one has none. Waits for the disk.
    pub(crate) fn run(&self, name: Option<&str>) -> Result<Arc<FollowedRun>> {
        match (self, name) {
            (Self::One(run), None) => Ok(Arc::clone(run)),
            (Self::One(_), Some(name)) => Err(unknown(name).because("the dashboard shows one run, which has no name")),
            (Self::Folder { .. }, None) => Err(Error::new(Code::DataMissing, "the request names no run")
                .help("add run=NAME; /api/runs lists the names")),
            (Self::Folder { index, followed }, Some(name)) => {
                let mut followed = followed.lock().unwrap_or_else(PoisonError::into_inner);
                let known = followed.iter().position(|(known, _)| known == name).map(|at| followed.remove(at));
                let found = match known {
                    Some((_, run)) => run,
                    None => {
                        let run = index.folder().run(name).ok_or_else(|| unknown(name))?;
                        FollowedRun::new(SharedTailer::start_polled(&run, POLL)?)
                    }
                };
                followed.push((name.to_owned(), Arc::clone(&found)));
                if followed.len() > MAX_FOLLOWED {
                    followed.remove(0);
                }
                Ok(found)
            }
        }
    }

    /// Returns the list of the runs in a folder; `None` for a single run.
    pub(crate) fn index(&self) -> Option<&RunIndex> {
        match self {
            Self::One(_) => None,
            Self::Folder { index, .. } => Some(index),
        }
    }
}

fn unknown(name: &str) -> Error {
    Error::new(Code::DataMissing, format!("there is no run {name:?}")).help("/api/runs lists the names")
}
