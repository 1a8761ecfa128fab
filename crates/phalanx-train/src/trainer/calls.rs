//! The calls of a trainer, which every trainer of the job makes alike: the chief's outcome is that of all.

use super::Trainer;
use crate::Session;
use crate::coordinator::{confirm, ended_early, wait_for_confirmations, wait_for_outcome, wait_for_trainers};
use bytes::Bytes;
use phalanx_base::{Code, Error, Result};
use phalanx_nn::burn::module::Module;

impl<M: Module> Trainer<M> {
    /// Makes a call with the session. A task that is asked to stop saves and leaves; any other error ends the task's part at
    /// once.
    pub(super) fn call<T>(&mut self, part: impl FnOnce(&mut Self, &mut Session<M>) -> Result<T>) -> Result<T> {
        let server = self.server().clone();
        server.begin_part();
        self.calls += 1;
        let prepared = self.prepare();
        let done = prepared.and_then(|()| {
            let mut session = self.session.take().ok_or_else(gone)?;
            let done = part(self, &mut session);
            self.session = Some(session);
            done
        });
        let error = match server.record_failure(done) {
            Ok(done) => {
                server.finish_part();
                return Ok(done);
            }
            Err(error) => error,
        };
        let stopped = match self.session.take() {
            // Saves, tells the others, and leaves.
            Some(session) if server.should_stop() => self.supervisor.stop(session),
            _ => Ok(()),
        };
        let error = stopped.err().unwrap_or(error);
        server.leave(Some(&error));
        self.heartbeat.fail(&error);
        Err(error)
    }

    /// The chief: waits until the other trainers have ended their steps of this call.
    pub(super) fn wait_for_trainers(&self, session: &mut Session<M>) -> Result<()> {
        // All of them have joined the job, or it would not have formed.
        wait_for_trainers(self.server(), self.calls, |_| false, || session.finish_lost_updates())
    }

    /// The chief: publishes the outcome of a call, and waits until the other trainers have taken it, so that it cannot end the
    /// job before.
    pub(super) fn publish(&self, outcome: Bytes) -> Result<Bytes> {
        self.server().coordinator_service()?.complete(self.calls, outcome.clone());
        wait_for_confirmations(self.server(), self.calls)?;
        Ok(outcome)
    }

    /// The other trainers: waits for the outcome of a call, then does what needs the servers, which may end afterwards.
    pub(super) fn await_outcome(&self, last: impl FnOnce() -> Result<()>) -> Result<Bytes> {
        let outcome = wait_for_outcome(self.server(), self.calls)?.ok_or_else(ended_early)?;
        last()?;
        confirm(self.server(), self.calls)?;
        Ok(outcome)
    }
}

/// The error of a call after one that failed.
pub(super) fn gone() -> Error {
    Error::new(Code::JobFailed, "this trainer has ended its part of the job")
        .because("an earlier call failed or was asked to stop")
        .help("return the error of that call")
}
