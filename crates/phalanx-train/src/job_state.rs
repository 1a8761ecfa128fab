//! How an evaluator, which talks to nobody, learns that training has ended: a small file in the run directory.

use phalanx_base::{Code, Context, Error, Result};
use phalanx_storage::Dir;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const FILE: &str = "phalanx.job";

/// How often a chief shows that it is alive.
const BEAT: Duration = Duration::from_secs(5);

/// What a chief says of its job.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobState {
    /// It trains; the number changes with every beat.
    Running(String),
    /// It ended well.
    Ended,
    /// It failed, and why.
    Failed(String),
}

impl JobState {
    /// What the file says; `None` where there is none.
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

/// The chief's side: says that the job runs until it is told how it ended.
pub struct Herald {
    dir: Dir,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Herald {
    /// Says that the job runs.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn start(dir: &Dir) -> Result<Self> {
        dir.create_all()?;
        // A life's own beats: a chief that was started again is not taken for one that stands still.
        let life = std::process::id();
        let said = dir.clone();
        dir.write(FILE, format!("running {life}.0").as_bytes())?;
        let (stop, stopped) = channel::<()>();
        let beat = move || {
            let mut beats = 0_u64;
            while stopped.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                beats += 1;
                // A directory that is away for a while is not the end of a training.
                let _ = said.write(FILE, format!("running {life}.{beats}").as_bytes());
            }
        };
        let thread = std::thread::Builder::new().name("phalanx-herald".into()).spawn(beat);
        let thread =
            thread.context(Code::Internal, "the thread that shows that the chief is alive cannot be started")?;
        Ok(Self { dir: dir.clone(), stop: Some(stop), thread: Some(thread) })
    }

    /// Says how it ended.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn end(mut self, failure: Option<&Error>) -> Result<()> {
        self.hush();
        let text = failure.map_or_else(|| "ended".to_owned(), |error| format!("failed {error}"));
        self.dir.write(FILE, text.as_bytes())
    }

    fn hush(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Herald {
    fn drop(&mut self) {
        self.hush();
    }
}

/// The evaluator's side: what it has seen of the chief, and since when.
pub struct Watcher {
    dir: Dir,
    seen: Option<JobState>,
    since: Instant,
    /// Whether what is seen was there before this evaluator: it may be of a former run.
    old: bool,
}

/// What an evaluator makes of it.
#[derive(Debug, PartialEq, Eq)]
pub enum Sight {
    /// Training goes on, or has not begun.
    Open,
    /// It ended well.
    Ended,
    /// It failed, and why.
    Failed(String),
    /// The chief has shown nothing for this long.
    Silent(Duration),
}

impl Sight {
    /// Whether training has ended well.
    ///
    /// # Errors
    /// When it has failed, or its chief shows no sign of life.
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
                    .help("see the chief's log; an evaluator that is started again goes on where this one ended"))
            }
        }
    }
}

impl Watcher {
    /// Looks for the first time.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn new(dir: &Dir) -> Result<Self> {
        Ok(Self { dir: dir.clone(), seen: JobState::read(dir)?, since: Instant::now(), old: true })
    }

    /// Looks again; `patience` is how long a former run's last word stands for this one.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn look(&mut self, patience: Duration) -> Result<Sight> {
        let now = JobState::read(&self.dir)?;
        if now != self.seen {
            (self.seen, self.since, self.old) = (now, Instant::now(), false);
        }
        let quiet = self.since.elapsed();
        Ok(match &self.seen {
            Some(JobState::Ended) if !self.old || quiet > patience => Sight::Ended,
            Some(JobState::Failed(why)) if !self.old || quiet > patience => Sight::Failed(why.clone()),
            Some(JobState::Running(_)) if quiet > patience => Sight::Silent(quiet),
            _ => Sight::Open,
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
        let mut early = Watcher::new(&dir).unwrap();
        assert_eq!(early.look(long).unwrap(), Sight::Open);
        let herald = Herald::start(&dir).unwrap();
        assert_eq!(early.look(long).unwrap(), Sight::Open);
        herald.end(None).unwrap();
        assert_eq!(early.look(long).unwrap(), Sight::Ended);
        let mut late = Watcher::new(&dir).unwrap();
        assert_eq!(late.look(long).unwrap(), Sight::Open, "it may be of a former run");
        assert_eq!(late.look(Duration::ZERO).unwrap(), Sight::Ended);
        let herald = Herald::start(&dir).unwrap();
        assert_eq!(late.look(long).unwrap(), Sight::Open);
        let silent = late.look(Duration::ZERO).unwrap();
        assert_eq!(silent.has_ended(&dir).unwrap_err().code(), Code::ChiefLost);
        herald.end(Some(&Error::new(Code::NotFinite, "the loss is not finite"))).unwrap();
        let failed = late.look(long).unwrap().has_ended(&dir).unwrap_err();
        assert!(failed.code() == Code::JobFailed && failed.why().unwrap().contains("not finite"), "{failed}");
        assert!(Sight::Ended.has_ended(&dir).unwrap() && !Sight::Open.has_ended(&dir).unwrap());
    }
}
