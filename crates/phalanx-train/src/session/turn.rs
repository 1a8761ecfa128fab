//! A session under a coordinator: whose step the next one is, and what is still to be sent.

use super::Session;
use crate::checkpoint::Follow;
use crate::services::Watch;
use phalanx_base::{Result, UpdateName};
use phalanx_nn::burn::module::Module;
use phalanx_ps::client::Mode;

/// How a coordinator wants a step done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Whose update it is, where that is not this task's own.
    pub(crate) on_behalf_of: Option<UpdateName>,
    /// This task's count of steps, as a bound on drift sees it.
    pub(crate) clock: u64,
    /// The round that the gradients are for, where they are collected into rounds, and how many are closed.
    pub(crate) round: Option<u64>,
    pub(crate) closed: u64,
}

impl Turn {
    pub(super) fn mode(&self) -> Mode {
        match (self.round, self.closed) {
            (None, 0) => Mode::Asynchronous,
            (round, closed) => Mode::Synchronous { round: round.unwrap_or(closed), closed },
        }
    }
}

impl<M: Module> Session<M> {
    /// Leaves lost trainers to a coordinator.
    pub(crate) fn coordinated(mut self) -> Self {
        self.coordinated = true;
        self
    }

    /// Whether a coordinator hands out the steps.
    pub(crate) fn is_coordinated(&self) -> bool {
        self.coordinated
    }

    /// Does the next step like this.
    pub(crate) fn take_turn(&mut self, turn: Turn) {
        self.turn = turn;
    }

    /// Whether the step is to finish what a lost worker began: it must then push something.
    pub(crate) fn acts_for_another(&self) -> bool {
        self.turn.on_behalf_of.is_some()
    }

    /// The name of the gradients that have not been sent yet.
    pub(crate) fn pending_name(&self) -> Option<UpdateName> {
        self.pending.name()
    }

    /// Sends the gradients that have not been sent yet.
    pub(crate) fn flush(&mut self) -> Result<()> {
        if let Some(pending) = self.pending.mark_sent() {
            let (step, _) = self.client.push(&mut self.remote, pending, self.turn.mode())?;
            self.global_step = self.global_step.max(step);
            self.acknowledged();
        }
        Ok(())
    }

    /// How many updates this incarnation has sent as its own.
    pub(crate) fn sent(&self) -> u64 {
        self.pending.used()
    }

    /// For a chief that does not train itself: see [`Services::follow`](crate::services::Services::follow).
    pub(crate) fn follow(&mut self, follow: Follow) -> Watch {
        self.services.follow(follow)
    }

    pub(crate) fn layout(&self) -> &phalanx_ps::Layout {
        self.remote.layout()
    }
}
