//! What the first server keeps for the trainers: the barrier of synchronous mode, the clocks of bounded staleness, the blocks of
//! their input.

use super::calls::{Client, unexpected};
use crate::proto::{self, reply, request};
use phalanx_base::Result;
use std::time::Duration;

/// The answer to [`Client::claim_block`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimedBlock {
    /// The block. `None`: all blocks of the round are taken.
    pub block: Option<u64>,
    /// The newest round in which a trainer has claimed a block.
    pub newest_round: u64,
}

impl Client {
    /// Synchronous mode: joins the barrier and returns the round to compute for.
    ///
    /// # Errors
    /// When the server that keeps the barrier does not answer.
    pub fn join_rounds(&self, replicas_to_aggregate: u32) -> Result<u64> {
        let round = self.round_of(request::Op::Join(proto::Join { replicas_to_aggregate }))?;
        round.ok_or_else(|| unexpected(&None))
    }

    /// Bounded staleness: joins with the clock of the slowest trainer, and returns it.
    ///
    /// # Errors
    /// When the server that keeps the clocks does not answer.
    pub fn join_clocks(&self) -> Result<u64> {
        let clock = self.round_of(request::Op::Advance(proto::Advance::default()))?;
        clock.ok_or_else(|| unexpected(&None))
    }

    /// Bounded staleness: reports that this trainer has made `clock` steps, and waits up to `wait` until the slowest one is
    /// at most `most_ahead` steps behind. `false`: not yet, ask again.
    ///
    /// # Errors
    /// When the server that keeps the clocks does not answer.
    pub fn advance_clock(&self, clock: u64, most_ahead: u64, wait: Duration) -> Result<bool> {
        let wait_ms = wait.as_millis().try_into().unwrap_or(u32::MAX);
        let ask = proto::Advance { clock: Some(clock), most_ahead, wait_ms };
        Ok(self.round_of(request::Op::Advance(ask))?.is_some())
    }

    /// Takes the next block of the input that the trainers share by blocks. `number` counts this trainer's claims of the round.
    ///
    /// # Errors
    /// When the server that hands out the blocks does not answer.
    pub fn claim_block(&self, round: u64, number: u64) -> Result<ClaimedBlock> {
        match self.ask(0, request::Op::ClaimBlock(proto::ClaimBlock { round, number }))?.result {
            Some(reply::Result::BlockClaimed(found)) => {
                Ok(ClaimedBlock { block: found.block, newest_round: found.newest_round })
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Leaves the barrier and the clocks.
    ///
    /// # Errors
    /// When the server that keeps the barrier does not answer.
    pub fn leave_rounds(&self) -> Result<()> {
        self.ask(0, request::Op::Leave(proto::Leave {})).map(drop)
    }

    /// Synchronous mode under a coordinator: closes a complete round. Returns `false` if it cannot be closed now, because a
    /// snapshot is being taken.
    ///
    /// # Errors
    /// When the server that keeps the barrier does not answer.
    pub fn close_round(&self, round: u64) -> Result<bool> {
        Ok(self.round_of(request::Op::CloseRound(proto::CloseRound { round }))?.is_some())
    }

    /// Synchronous mode: reports that the gradient of `step` is on every server, and waits up to `wait` for the round to
    /// close. `None`: not yet, ask again.
    ///
    /// # Errors
    /// When the server that keeps the barrier does not answer.
    pub fn arrive(&self, step: u64, round: u64, replicas: u32, wait: Duration) -> Result<Option<u64>> {
        let wait_ms = wait.as_millis().try_into().unwrap_or(u32::MAX);
        self.round_of(request::Op::Arrive(proto::Arrive { step, round, wait_ms, replicas_to_aggregate: replicas }))
    }

    /// Keeps the open round from closing for this time; zero ends the hold. Returns the open round.
    pub(super) fn hold_round(&self, time: Duration) -> Result<u64> {
        let round = self.round_of(request::Op::Hold(proto::Hold { millis: time.as_millis() as u32 }))?;
        round.ok_or_else(|| unexpected(&None))
    }

    fn round_of(&self, op: request::Op) -> Result<Option<u64>> {
        match self.ask(0, op)?.result {
            Some(reply::Result::Arrived(arrived)) => Ok(arrived.round),
            other => Err(unexpected(&other)),
        }
    }
}
