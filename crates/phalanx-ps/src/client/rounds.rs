//! Synchronous mode: the barrier that the first server keeps.

use super::calls::{Client, unexpected};
use phalanx_base::Result;
use phalanx_wire::proto::params::{self, Reply, reply, request};
use std::time::Duration;

impl Client {
    /// Synchronous mode: enters the barrier; answers the round to compute for.
    ///
    /// # Errors
    /// When the server that keeps the barrier does not answer.
    pub fn join_rounds(&self, replicas_to_aggregate: u32) -> Result<u64> {
        let op = request::Op::Join(params::Join { replicas_to_aggregate });
        let answer = self.block(self.call(0, self.frame(op)))?.0;
        round(&answer)?.ok_or_else(|| unexpected(&answer.result))
    }

    /// Synchronous mode: leaves the barrier.
    ///
    /// # Errors
    /// When the server that keeps the barrier does not answer.
    pub fn leave_rounds(&self) -> Result<()> {
        self.block(self.call(0, self.frame(request::Op::Leave(params::Leave {})))).map(drop)
    }

    /// Synchronous mode under a coordinator: closes a round that is complete. `false`: not now, because the instant of a
    /// checkpoint is being taken.
    ///
    /// # Errors
    /// When the server that keeps the rounds does not answer.
    pub fn close_round(&self, round_of: u64) -> Result<bool> {
        let op = request::Op::CloseRound(params::CloseRound { round: round_of });
        Ok(round(&self.block(self.call(0, self.frame(op)))?.0)?.is_some())
    }

    /// Synchronous mode: says that the gradient of `step` is on every server, and waits up to `wait` for the round to
    /// close. `None`: not yet, ask again.
    ///
    /// # Errors
    /// When the server that keeps the barrier does not answer.
    pub fn arrive(&self, step: u64, round_of: u64, replicas: u32, wait: Duration) -> Result<Option<u64>> {
        let wait_ms = wait.as_millis().try_into().unwrap_or(u32::MAX);
        let arrive = params::Arrive { step, round: round_of, wait_ms, replicas_to_aggregate: replicas };
        let op = request::Op::Arrive(arrive);
        round(&self.block(self.call(0, self.frame(op)))?.0)
    }
}

fn round(answer: &Reply) -> Result<Option<u64>> {
    match &answer.result {
        Some(reply::Result::Arrived(arrived)) => Ok(arrived.round),
        other => Err(unexpected(other)),
    }
}
