//! The end of a task's training: what is pending is sent, the last checkpoint saved, and the outcome said to the job.

use super::Supervisor;
use crate::Session;
use phalanx_base::{Code, Error, Result};
use phalanx_cluster::Phase;
use phalanx_nn::burn::module::Module;
use std::time::{Duration, Instant};

/// How long trainers may take to end their step and push it.
const LAST_UPDATES: Duration = Duration::from_secs(30);

impl Supervisor {
    /// As [`Self::stop`], for trainers that each have a share of the input: a chief whose share is used up waits until the
    /// others are done with theirs, or lost, before it ends the job.
    ///
    /// # Errors
    /// As [`Self::stop`].
    pub fn stop_with_workers<M: Module>(&self, mut session: Session<M>) -> Result<()> {
        let mut finished = self.server.note(session.finish());
        while finished.is_ok() && self.server.has_trainers() && !self.should_stop() {
            std::thread::sleep(Duration::from_millis(20));
            finished = self.server.note(session.finish_orphans());
        }
        self.stop(session)
    }

    /// Ends this task's training: sends what is pending and leaves; the chief saves once more and ends the job with it.
    ///
    /// # Errors
    /// When the last updates cannot be sent, the last checkpoint cannot be saved, the job failed, or somebody asked this
    /// process to stop.
    pub fn stop<M: Module>(&self, mut session: Session<M>) -> Result<()> {
        let finished = match session.finish() {
            // Too late to matter: the servers may already have gone.
            Err(_) if self.server.job().phase() == Phase::Over => Ok(()),
            finished => finished,
        };
        let finished = finished.and_then(|()| self.wait_for_last_updates(&mut session));
        if finished.is_ok() && !self.server.is_chief() && self.server.job().phase() == Phase::Ending {
            // What went wrong, if something did, is found below.
            let _ = self.server.wait_as_done();
        }
        let saved = match self.server.job().failure() {
            None => session.save_last().map_err(|error| self.unsaved(&session, &error)),
            Some(_) => Ok(()),
        };
        let failure = self.server.job().failure().map_or(Ok(()), Err);
        let interrupted = self.server.job().interrupted().map_or(Ok(()), Err);
        if let (Err(_), Err(unsaved)) = (&interrupted, &saved) {
            // The interruption is what is returned.
            self.server.say(&unsaved.to_string());
        }
        // Ctrl-C in a terminal reaches every task: servers that went with it are no failure of this one.
        let outcome = interrupted.and(failure).and(finished).and(saved);
        self.server.leave(outcome.as_ref().err());
        outcome
    }

    /// The chief of a job that keeps itself: tells the other trainers to stop and waits until they have pushed their last
    /// updates, have left, or are lost. What was acknowledged is then in the last checkpoint.
    fn wait_for_last_updates<M: Module>(&self, session: &mut Session<M>) -> Result<()> {
        if !self.server.is_chief() || self.run_dir.dir.is_none() || self.server.job().failure().is_some() {
            return Ok(());
        }
        // A coordinator's workers push nothing that was not handed out, and stay until the job is over.
        if session.is_coordinated() {
            return Ok(());
        }
        let longest = match self.server.job().interrupted().map(|why| why.code()) {
            None => LAST_UPDATES,
            Some(Code::Terminated) => Duration::from_secs(3),
            Some(_) => Duration::from_secs(1),
        };
        self.server.stop_trainers();
        let until = Instant::now() + longest;
        while self.server.has_trainers() && self.server.job().phase() != Phase::Over {
            if Instant::now() > until {
                let seconds = longest.as_secs();
                self.server.say(&format!(
                    "trainers have not stopped for {seconds} s: the last checkpoint may miss their last updates"
                ));
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
            session.finish_orphans()?;
        }
        session.finish_orphans()
    }

    /// What was trained since the newest checkpoint goes with the servers: a job that ends like that has not done its work.
    fn unsaved<M: Module>(&self, session: &Session<M>, error: &Error) -> Error {
        let place = self.run_dir.dir.as_ref().map_or_else(String::new, |dir| format!("{}, ", dir.location()));
        let newest = session.newest_checkpoint().map_or_else(
            || "the newest checkpoint".to_owned(),
            |saved| format!("{}, the newest checkpoint", saved.name),
        );
        Error::new(error.code(), "the last checkpoint was not saved")
            .at(format!("{place}step {}", session.global_step()))
            .because(error)
            .help(format!(
                "make the run directory writable, with room in it, and start the job again: it goes on from {newest}"
            ))
    }
}
