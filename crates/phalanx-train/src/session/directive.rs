//! A session under a coordinator, which decides how each step is done.

use super::{Pace, Session};
use crate::checkpoint::StepSource;
use crate::services::ProgressWriter;
use phalanx_base::{Result, UpdateId};
use phalanx_nn::burn::module::Module;
use phalanx_ps::client::UpdateMode;

/// How a coordinator wants a step done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StepDirective {
    /// The id of the update, where it is that of a lost worker.
    pub(crate) on_behalf_of: Option<UpdateId>,
    /// This task's count of steps, by which servers measure staleness.
    pub(crate) clock: u64,
    /// The round that the gradients are for, where they are collected into rounds.
    pub(crate) round: Option<u64>,
    /// How many rounds are closed.
    pub(crate) closed_rounds: u64,
}

impl StepDirective {
    pub(super) fn mode(&self) -> UpdateMode {
        match (self.round, self.closed_rounds) {
            (None, 0) => UpdateMode::Asynchronous,
            (round, closed) => UpdateMode::Synchronous { round: round.unwrap_or(closed), closed },
        }
    }
}

impl<M: Module> Session<M> {
    /// Leaves the steps and lost trainers to a coordinator, after the steps of its own are done.
    pub(crate) fn follow_coordinator(&mut self) -> Result<()> {
        if !self.coordinated {
            self.finish()?;
            (self.coordinated, self.pace) = (true, Pace::Free);
        }
        Ok(())
    }

    /// Steps without a coordinator from now on, at this pace.
    pub(crate) fn drive(&mut self, pace: Pace) {
        (self.coordinated, self.pace) = (false, pace);
        self.directive = StepDirective::default();
    }

    /// Leaves lost trainers to a coordinator.
    pub(crate) fn coordinated(mut self) -> Self {
        self.coordinated = true;
        self
    }

    pub(crate) fn client(&self) -> &phalanx_ps::Client {
        &self.client
    }

    /// Whether a coordinator hands out the steps.
    pub(crate) fn is_coordinated(&self) -> bool {
        self.coordinated
    }

    /// Sets how the next step is done.
    pub(crate) fn set_directive(&mut self, directive: StepDirective) {
        self.directive = directive;
    }

    /// Whether the next step completes the update of a lost worker: it must then push something.
    pub(crate) fn acts_for_another(&self) -> bool {
        self.directive.on_behalf_of.is_some()
    }

    /// Returns the id of the gradients that have not been sent yet.
    pub(crate) fn pending_name(&self) -> Option<UpdateId> {
        self.pending.name()
    }

    /// Sends the gradients that have not been sent yet.
    pub(crate) fn flush(&mut self) -> Result<()> {
        if let Some(pending) = self.pending.mark_sent() {
            let (step, _) = self.client.push(&mut self.remote, pending, self.directive.mode())?;
            self.global_step = self.global_step.max(step);
            self.acknowledged();
        }
        Ok(())
    }

    /// Returns how many updates this incarnation has sent as its own.
    pub(crate) fn sent(&self) -> u64 {
        self.pending.used()
    }

    /// For a chief that does not train itself: see [`Services::follow`](crate::services::Services::follow).
    pub(crate) fn follow(&mut self, steps: StepSource) -> ProgressWriter {
        self.services.follow(steps)
    }

    pub(crate) fn layout(&self) -> &phalanx_ps::Layout {
        self.remote.layout()
    }
}
