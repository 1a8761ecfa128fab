//! The state machine of a trainer's steps.
//!
//! A session steps by itself, in one of four states, or follows a coordinator. `Session::step_directly`, `overlap_steps`,
//! `join_rounds` and `join_clocks` begin steps of its own; `Session::follow_coordinator` ends them first.

use super::bounded::Lead;
use super::connection::Connection;
use super::overlap::Overlap;
use super::rounds::Rounds;
use phalanx_base::{Result, UpdateId};
use phalanx_ps::client::{Pulled, Push, RowSet, UpdateMode};

/// The state of a trainer's steps. Each state owns what only it needs.
pub(super) enum StepState {
    /// Asynchronous: every exchange sends the update of the step before, and nobody waits.
    Direct,
    /// Asynchronous, and exchanges overlap with the computation of the step before.
    Overlapped(Overlap),
    /// Synchronous: an update is the mean of a round, whose end every trainer waits for.
    Rounds(Rounds),
    /// Asynchronous, but a trainer waits for those that are far behind.
    Bounded(Lead),
    /// A coordinator hands out the steps, directs how each is done, and handles lost trainers.
    Coordinated(StepDirective),
}

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
    fn mode(&self) -> UpdateMode {
        match (self.round, self.closed_rounds) {
            (None, 0) => UpdateMode::Asynchronous,
            (round, closed) => UpdateMode::Synchronous { round: round.unwrap_or(closed), closed },
        }
    }
}

impl StepState {
    /// Returns how the servers take updates, and which rounds they show.
    pub(super) fn mode(&self) -> UpdateMode {
        match self {
            Self::Direct | Self::Overlapped(_) | Self::Bounded(_) => UpdateMode::Asynchronous,
            Self::Rounds(rounds) => rounds.mode(),
            Self::Coordinated(directive) => directive.mode(),
        }
    }

    pub(super) fn is_synchronous(&self) -> bool {
        matches!(self, Self::Rounds(_))
    }

    pub(super) fn is_coordinated(&self) -> bool {
        matches!(self, Self::Coordinated(_))
    }

    /// Returns whether the servers wait for this trainer until it leaves.
    pub(super) fn is_awaited(&self) -> bool {
        matches!(self, Self::Rounds(_) | Self::Bounded(_))
    }

    /// Returns how many of the task's own steps are in flight.
    pub(super) fn steps_in_flight(&self) -> u64 {
        if let Self::Overlapped(overlap) = self { overlap.steps_in_flight() } else { 0 }
    }

    /// Returns the coordinator's directive for this step; the default one where there is no coordinator.
    pub(super) fn directive(&self) -> StepDirective {
        if let Self::Coordinated(directive) = self { *directive } else { StepDirective::default() }
    }

    /// Sets the directive of the next step, where a coordinator directs.
    pub(super) fn direct(&mut self, next: StepDirective) {
        if let Self::Coordinated(directive) = self {
            *directive = next;
        }
    }

    /// Takes the id of the lost worker's update that the step's gradients complete, if that is what it is for.
    pub(super) fn take_lost_update(&mut self) -> Option<UpdateId> {
        if let Self::Coordinated(directive) = self { directive.on_behalf_of.take() } else { None }
    }

    /// Handles lost trainers, unless a coordinator does.
    pub(super) fn finish_lost_updates(&self, connection: &mut Connection) -> Result<()> {
        if self.is_coordinated() { Ok(()) } else { connection.finish_lost_updates(self.is_synchronous()) }
    }

    /// Sends an update, waits if the state demands it, and fetches values and rows. `None` when the job is over. No
    /// exchange may be in flight.
    pub(super) fn exchange(
        &mut self,
        connection: &mut Connection,
        push: Option<&Push>,
        sets: &[RowSet],
    ) -> Result<Option<Pulled>> {
        self.finish_lost_updates(connection)?;
        match self {
            Self::Rounds(rounds) => rounds.exchange(connection, push, sets),
            Self::Bounded(lead) => lead.exchange(connection, push, sets),
            Self::Direct | Self::Overlapped(_) | Self::Coordinated(_) => {
                connection.exchange(push, sets, self.mode()).map(Some)
            }
        }
    }
}
