//! The heartbeat file in the run directory, from which an evaluator learns whether training continues.

use phalanx_base::{Code, Context, Error, Result};
use phalanx_storage::Dir;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const FILE: &str = "phalanx.job";

/// How often the chief writes the file.
const BEAT: Duration = Duration::from_secs(5);

/// The state of a job, as its chief wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobState {
    /// It trains; the text changes with every heartbeat.
    Running(String),
    /// It ended successfully.
    Ended,
    /// It failed, for this reason.
    Failed(String),
}

impl JobState {
    /// Reads the file; `None` where there is none.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(dir: &Dir) -> Result<Option<Self>> {
        let Some(bytes) = dir.try_read(FILE, 1 << 16)? else { return Ok(None) };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (word, rest) = text.split_once(' ').unwrap_or((text.trim(), ""));
        Ok(match word {
            "running" => Some(Self::Running(rest.trim().to_owned())),
            "ended" => Some(Self::Ended),
            "failed" => Some(Self::Failed(rest.trim().to_owned())),
            _ => None,
        })
    }
}

/// The chief's side: writes heartbeats until [`Self::end`].
pub struct HeartbeatWriter {
    dir: Dir,
    stopped: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl HeartbeatWriter {
    /// Starts writing heartbeats.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn start(dir: &Dir) -> Result<Self> {
        dir.create_all()?;
        // With the process id, so that a chief that was started again is not taken for one that stands still.
        let (process, to) = (std::process::id(), dir.clone());
        dir.write(FILE, format!("running {process}.0").as_bytes())?;
        let (stop, stopped) = channel::<()>();
        let beat = move || {
            let mut beats = 0_u64;
            while stopped.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                beats += 1;
                // Training continues while the directory cannot be written.
                let _ = to.write(FILE, format!("running {process}.{beats}").as_bytes());
            }
        };
        let thread = std::thread::Builder::new().name("phalanx-heartbeat".into()).spawn(beat);
        let thread = thread.context(Code::Internal, "the thread that writes heartbeats cannot be started")?;
        Ok(Self { dir: dir.clone(), stopped: Some(stop), thread: Some(thread) })
    }

    /// Writes how the job ended.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn end(mut self, failure: Option<&Error>) -> Result<()> {
        self.stop();
        let text = failure.map_or_else(|| "ended".to_owned(), |error| format!("failed {error}"));
        self.dir.write(FILE, text.as_bytes())
    }

    fn stop(&mut self) {
        self.stopped = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for HeartbeatWriter {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The evaluator's side: the last heartbeat, and when it changed.
pub struct HeartbeatReader {
    dir: Dir,
    seen: Option<JobState>,
    since: Instant,
    /// Whether the file has not changed since this reader was created: it may be of a former run.
    old: bool,
}

/// What an evaluator concludes from the heartbeats.
#[derive(Debug, PartialEq, Eq)]
pub enum Observation {
    /// Training goes on, or has not begun.
    Open,
    /// Training ended successfully.
    Ended,
    /// Training failed, for this reason.
    Failed(String),
    /// There was no heartbeat for this long.
    Silent(Duration),
}

impl Observation {
    /// Returns whether training has ended successfully.
    ///
    /// # Errors
    /// When training has failed, or there was no heartbeat for too long.
    pub fn has_ended(&self, dir: &Dir) -> Result<bool> {
        match self {
            Self::Open => Ok(false),
            Self::Ended => Ok(true),
            Self::Failed(why) => Err(Error::new(Code::JobFailed, "the training that is evaluated has failed")
                .at(dir.location())
                .because(why)),
            Self::Silent(time) => {
                Err(Error::new(Code::ChiefLost, "the training that is evaluated shows no sign of life")
                    .at(dir.location())
                    .because(format!("nothing for {} s", time.as_secs()))
                    .help("see the chief's log; an evaluator that is started again continues where this one ended"))
            }
        }
    }
}

impl HeartbeatReader {
    /// Reads the file for the first time.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn new(dir: &Dir) -> Result<Self> {
        Ok(Self { dir: dir.clone(), seen: JobState::read(dir)?, since: Instant::now(), old: true })
    }

    /// Reads the file again. `patience`: how long heartbeats may stay away, and how long the end of a former run is ignored.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn look(&mut self, patience: Duration) -> Result<Observation> {
        let now = JobState::read(&self.dir)?;
        if now != self.seen {
            (self.seen, self.since, self.old) = (now, Instant::now(), false);
        }
        let quiet = self.since.elapsed();
        Ok(match &self.seen {
            Some(JobState::Ended) if !self.old || quiet > patience => Observation::Ended,
            Some(JobState::Failed(why)) if !self.old || quiet > patience => Observation::Failed(why.clone()),
            Some(JobState::Running(_)) if quiet > patience => Observation::Silent(quiet),
            _ => Observation::Open,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_seen_to_run_and_to_end_and_a_former_one_is_not_believed_at_once() {
        let dir = Dir::in_memory();
        let long = Duration::from_secs(60);
        let mut early = HeartbeatReader::new(&dir).unwrap();
        assert_eq!(early.look(long).unwrap(), Observation::Open);
        let writer = HeartbeatWriter::start(&dir).unwrap();
        assert_eq!(early.look(long).unwrap(), Observation::Open);
        writer.end(None).unwrap();
        assert_eq!(early.look(long).unwrap(), Observation::Ended);
        let mut late = HeartbeatReader::new(&dir).unwrap();
        assert_eq!(late.look(long).unwrap(), Observation::Open, "it may be of a former run");
        assert_eq!(late.look(Duration::ZERO).unwrap(), Observation::Ended);
        let writer = HeartbeatWriter::start(&dir).unwrap();
        assert_eq!(late.look(long).unwrap(), Observation::Open);
        let silent = late.look(Duration::ZERO).unwrap();
        assert_eq!(silent.has_ended(&dir).unwrap_err().code(), Code::ChiefLost);
        writer.end(Some(&Error::new(Code::NotFinite, "the loss is not finite"))).unwrap();
        let failed = late.look(long).unwrap().has_ended(&dir).unwrap_err();
        assert!(failed.code() == Code::JobFailed && failed.why().unwrap().contains("not finite"), "{failed}");
        assert!(Observation::Ended.has_ended(&dir).unwrap() && !Observation::Open.has_ended(&dir).unwrap());
    }
}
