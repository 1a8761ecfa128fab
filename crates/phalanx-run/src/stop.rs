//! Stopping a job from outside, through its launcher.

use crate::{JobState, RunDir, RunState, host_name};
use phalanx_base::{Code, Error, Result};

impl RunState {
    /// Whether [`RunDir::request_stop`] can work here: the job runs, nobody has stopped it yet, and its launcher is a process of
    /// this machine.
    #[must_use]
    pub fn can_be_stopped(&self) -> bool {
        let job = self.job.as_ref().filter(|_| self.state == JobState::Running && !self.is_stopping());
        job.is_some_and(|job| job.host == host_name() && job.launcher.is_some())
    }
}

impl RunDir {
    /// Asks the launcher of a running job to stop it, as SIGTERM at the launcher does: its tasks get time to save a checkpoint.
    /// Returns without waiting for the end. A second request would end that time.
    ///
    /// The signal reaches the process that launched the job or none, even if another process has its number by now.
    ///
    /// # Errors
    /// If no launcher of this machine runs the job, or this user may not signal it.
    pub fn request_stop(&self) -> Result<()> {
        let refused = |why: String, help: &str| {
            let error = Error::new(Code::CannotStop, "the run cannot be stopped from here");
            Err(error.at(self.root().display().to_string()).because(why).help(help))
        };
        let Some(job) = self.read_job()? else {
            return refused(
                "no launcher wrote into its directory".to_owned(),
                "stop its program as you started it; `phalanx launch` starts jobs that can be stopped from here",
            );
        };
        if job.host != host_name() {
            let why = format!("its launcher is on {}, and this machine is {}", job.host, host_name());
            return refused(why, "open the dashboard on that machine, or press Ctrl-C in the launcher's terminal");
        }
        let Some(launcher) = job.launcher else {
            return refused(
                "an older version of phalanx launched it and did not record which process that is".to_owned(),
                "press Ctrl-C in the launcher's terminal",
            );
        };
        match launcher.terminate() {
            Ok(true) => Ok(()),
            Ok(false) => refused(
                format!("its launcher, process {}, has ended", launcher.pid),
                "there is nothing to stop: `phalanx status` shows how it ended",
            ),
            Err(error) => refused(
                format!("process {} cannot be signalled: {error}", launcher.pid),
                "stop it as the user who launched it: press Ctrl-C in its terminal",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{JobFile, ProcessIdentity};
    use serde_json::Value;
    use std::process::Command;

    fn write(run: &RunDir, change: impl FnOnce(&mut JobFile)) {
        run.create().unwrap();
        let mut job = JobFile::now(vec!["train".to_owned()], String::new(), Value::Null, Vec::new());
        change(&mut job);
        std::fs::write(run.job_file(), serde_json::to_string(&job).unwrap()).unwrap();
    }

    #[test]
    fn only_the_launcher_of_the_run_is_signalled() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::at(dir.path());
        let why = |run: &RunDir| {
            let error = run.request_stop().unwrap_err();
            assert_eq!(error.code(), Code::CannotStop);
            assert!(error.next().is_some(), "{error}");
            error.why().unwrap_or_default().to_owned()
        };
        assert!(why(&run).contains("no launcher"));
        let mut other = Command::new("sleep").arg("60").spawn().unwrap();
        let launcher = ProcessIdentity::of(other.id()).unwrap();
        write(&run, |job| job.host = "elsewhere".to_owned());
        assert!(why(&run).contains("elsewhere"));
        write(&run, |job| (job.launcher, job.launcher_pid) = (None, Some(other.id())));
        assert!(why(&run).contains("older version"));
        // Another process has the number of a launcher that is gone.
        let start_ticks = launcher.start_ticks - 1;
        write(&run, |job| job.launcher = Some(ProcessIdentity { start_ticks, ..launcher.clone() }));
        assert!(why(&run).contains("has ended"));
        assert!(other.try_wait().unwrap().is_none(), "it was not meant");
        write(&run, |job| job.launcher = Some(launcher));
        run.request_stop().unwrap();
        assert!(!other.wait().unwrap().success());
    }
}
