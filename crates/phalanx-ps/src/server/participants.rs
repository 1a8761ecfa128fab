//! The trainers that take part: rounds, clocks and claims, which server 0 keeps. What changes them is in the log first.

use super::barrier::{Arrival, Barrier, Hold};
use super::block_claims::BlockClaims;
use super::clocks::Clocks;
use super::{Store, TaskIncarnation, TaskProgress, lock};
use crate::proto::{self, BlockClaimed, ClaimBlock, request};
use phalanx_base::Result;
use phalanx_wire::task_to_wire;
use std::collections::BTreeSet;
use std::sync::Mutex;

/// What a server keeps of the trainers that take part.
#[derive(Default)]
pub(super) struct Participants {
    pub(super) barrier: Mutex<Barrier>,
    pub(super) clocks: Mutex<Clocks>,
    pub(super) block_claims: Mutex<BlockClaims>,
}

impl Participants {
    fn leave(&self, task: TaskIncarnation) {
        lock(&self.barrier).leave(task);
        lock(&self.clocks).leave(task);
        lock(&self.block_claims).leave(task);
    }
}

/// Operations of trainers. A task that was fenced is refused: a late message must not let it join again.
impl Store {
    /// Adds a task to the rounds and returns the round to compute for.
    pub(crate) fn join(&self, from: TaskIncarnation, ask: &proto::Join) -> Result<u64> {
        let _update = self.snapshots.update();
        let join = || {
            let mut barrier = lock(&self.participants.barrier);
            self.record(Some(from), || request::Op::Join(*ask), &[])?;
            Ok(barrier.join(from, ask.replicas_to_aggregate, self.global_step()))
        };
        self.applied.admitted(from, join).flatten()
    }

    /// Records that a task's gradient for a round is on every server.
    pub(crate) fn arrive(&self, from: TaskIncarnation, ask: &proto::Arrive) -> Result<Arrival> {
        let _update = self.snapshots.update();
        let arrive = || {
            let mut barrier = lock(&self.participants.barrier);
            self.record(Some(from), || request::Op::Arrive(*ask), &[])?;
            barrier.restore_quorum(ask.replicas_to_aggregate);
            let before = barrier.round();
            let arrival = barrier.arrive(from, ask.step, ask.round);
            Ok((arrival, (barrier.round() != before).then(|| barrier.round())))
        };
        let (arrival, round) = self.applied.admitted(from, arrive).flatten()?;
        round.into_iter().for_each(|round| self.reach_step(round));
        Ok(arrival)
    }

    /// Returns whether a task that has arrived may continue.
    pub(crate) fn poll_round(&self, from: TaskIncarnation) -> Arrival {
        lock(&self.participants.barrier).poll(from)
    }

    /// Closes a round that is complete, as a coordinator reports; returns the round that is then open.
    pub(crate) fn close_round(&self, round: u64) -> Result<Option<u64>> {
        let _update = self.snapshots.update();
        let open = {
            let mut barrier = lock(&self.participants.barrier);
            self.record(None, || request::Op::CloseRound(proto::CloseRound { round }), &[])?;
            barrier.close(round)
        };
        open.into_iter().for_each(|open| self.reach_step(open));
        Ok(open)
    }

    /// Keeps the open round from closing; returns the hold and the round. A hold is not in the log: its end closes the round,
    /// and so does the end of this process.
    pub(crate) fn hold(&self) -> (Hold, u64) {
        let mut barrier = lock(&self.participants.barrier);
        (barrier.hold(), barrier.round())
    }

    /// Ends this hold, or the current one; returns whether one was ended, and the round that is then open.
    pub(crate) fn end_hold(&self, hold: Option<Hold>) -> (bool, u64) {
        let _update = self.snapshots.update();
        let (ended, round) = {
            let mut barrier = lock(&self.participants.barrier);
            (barrier.end_hold(hold), barrier.round())
        };
        if ended {
            self.reach_step(round);
        }
        (ended, round)
    }

    /// Returns the gradients that came too late for their round, and how many tasks take part in rounds.
    pub(crate) fn rounds_of(&self) -> (u64, u64) {
        let barrier = lock(&self.participants.barrier);
        (barrier.stale(), barrier.members().count() as u64)
    }

    /// Sets a task's clock, or adds the task; returns the clock of the slowest one then.
    pub(crate) fn advance(&self, from: TaskIncarnation, ask: &proto::Advance) -> Result<Option<u64>> {
        let _update = self.snapshots.update();
        let advance = || {
            let mut clocks = lock(&self.participants.clocks);
            self.record(Some(from), || request::Op::Advance(*ask), &[])?;
            let Some(clock) = ask.clock else { return Ok(Some(clocks.join(from))) };
            clocks.advance(from, clock);
            Ok(None)
        };
        self.applied.admitted(from, advance).flatten()
    }

    /// Returns the clock of the slowest task if this one may continue.
    pub(crate) fn poll_clocks(&self, from: TaskIncarnation, most_ahead: u64) -> Option<u64> {
        lock(&self.participants.clocks).poll(from, most_ahead)
    }

    /// Takes the next block of a round of the input for this task.
    pub(crate) fn claim_block(&self, from: TaskIncarnation, ask: ClaimBlock) -> Result<BlockClaimed> {
        let _update = self.snapshots.update();
        let claim = || {
            let mut claims = lock(&self.participants.block_claims);
            self.record(Some(from), || request::Op::ClaimBlock(ask), &[])?;
            Ok(claims.claim(from, ask))
        };
        self.applied.admitted(from, claim).flatten()
    }

    /// Takes a task out of rounds, clocks and claims.
    pub(crate) fn leave(&self, task: TaskIncarnation) -> Result<()> {
        let _update = self.snapshots.update();
        self.record(Some(task), || request::Op::Leave(proto::Leave {}), &[])?;
        self.participants.leave(task);
        Ok(())
    }

    /// Fences a lost task and returns its progress.
    ///
    /// # Errors
    /// When this server's log is full.
    pub fn fence(&self, lost: TaskIncarnation) -> Result<TaskProgress> {
        let _update = self.snapshots.update();
        let op = || request::Op::Fence(proto::Fence { lost: Some(task_to_wire(lost.0, lost.1)) });
        let progress = self.applied.fence_after(lost, || self.record(None, op, &[]))?;
        self.participants.leave(lost);
        Ok(progress)
    }

    /// Returns the task incarnations that have pushed or joined the rounds here and are not fenced.
    pub fn task_incarnations(&self) -> BTreeSet<TaskIncarnation> {
        let mut tasks: BTreeSet<_> = self.applied.tasks().into_iter().collect();
        tasks.extend(lock(&self.participants.barrier).members());
        tasks.extend(lock(&self.participants.clocks).members());
        tasks
    }
}
