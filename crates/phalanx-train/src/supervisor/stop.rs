//! The end of a task's training: it sends pending updates, saves the last checkpoint, and reports the outcome to the job.

use super::Supervisor;
use crate::Session;
use phalanx_base::{Code, Error, Result};
use phalanx_cluster::Phase;
use phalanx_nn::Parameters;
use std::time::{Duration, Instant};

/// How long trainers may take to end their step and push it.
const LAST_UPDATES: Duration = Duration::from_secs(30);

impl Supervisor {
    /// Stops like [`Self::stop`], but a chief first waits until every other trainer has finished its share of the input or is
    /// lost.
    ///
    /// # Errors
    /// As [`Self::stop`].
    pub fn stop_with_workers<M: Parameters>(&self, mut session: Session<M>) -> Result<()> {
        let mut finished = self.server.record_failure(session.finish());
        while finished.is_ok() && self.server.has_trainers() && !self.should_stop() {
            std::thread::sleep(Duration::from_millis(20));
            finished = self.server.record_failure(session.finish_lost_updates());
        }
        self.stop(session)
    }

    /// Ends this task's training: sends pending updates and leaves. The chief saves once more and ends the job.
    ///
    /// # Errors
    /// When the last updates cannot be sent, the last checkpoint cannot be saved, the job failed, or this process was
    /// asked to stop.
    pub fn stop<M: Parameters>(&self, mut session: Session<M>) -> Result<()> {
        let finished = match session.finish() {
            // Too late to matter: the servers may already have gone.
            Err(_) if self.server.job().phase() == Phase::Over => Ok(()),
            finished => finished,
        };
        let finished = finished.and_then(|()| self.wait_for_last_updates(&mut session));
        if finished.is_ok() && !self.server.is_chief() && self.server.job().phase() == Phase::Ending {
            // A failure of the job is found below.
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
            self.server.in_scope(|| tracing::error!(code = %unsaved.code(), "{unsaved}"));
        }
        // Ctrl-C in a terminal reaches every task: servers that went with it are no failure of this one.
        let outcome = interrupted.and(failure).and(finished).and(saved);
        self.server.leave(outcome.as_ref().err());
        outcome
    }

    /// The chief of a job with a run directory: tells the other trainers to stop and waits until they have pushed their last
    /// updates, have left, or are lost. The last checkpoint then has every update that was acknowledged.
    fn wait_for_last_updates<M: Parameters>(&self, session: &mut Session<M>) -> Result<()> {
        // A coordinator's workers push only what was handed out, and stay until the job is over.
        let lead = self.server.chief().filter(|_| self.checkpoints.dir.is_some() && !session.is_coordinated());
        let Some(chief) = lead.filter(|_| self.server.job().failure().is_none()) else { return Ok(()) };
        let longest = match self.server.job().interrupted().map(|why| why.code()) {
            None => LAST_UPDATES,
            Some(Code::Terminated) => Duration::from_secs(3),
            Some(_) => Duration::from_secs(1),
        };
        chief.stop_trainers();
        let until = Instant::now() + longest;
        while self.server.has_trainers() && self.server.job().phase() != Phase::Over {
            if Instant::now() > until {
                let seconds = longest.as_secs();
                self.server.in_scope(|| {
                    tracing::warn!(
                        "trainers have not stopped for {seconds} s: the last checkpoint may miss their last updates"
                    );
                });
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
            session.finish_lost_updates()?;
        }
        session.finish_lost_updates()
    }

    /// The error of a job whose last updates are lost with the servers.
    fn unsaved<M: Parameters>(&self, session: &Session<M>, error: &Error) -> Error {
        let place = self.checkpoints.dir.as_ref().map_or_else(String::new, |dir| format!("{}, ", dir.location()));
        let newest = session.newest_checkpoint().map_or_else(
            || "the newest checkpoint".to_owned(),
            |saved| format!("{}, the newest checkpoint", saved.name),
        );
        Error::new(error.code(), "the last checkpoint was not saved")
            .at(format!("{place}step {}", session.global_step()))
            .because(error)
            .help(format!(
                "make the run directory writable, with space in it, and start the job again: it continues from {newest}"
            ))
    }
}
