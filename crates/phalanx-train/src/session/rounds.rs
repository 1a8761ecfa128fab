//! Synchronous training: rounds of gradients, averaged.

use super::connection::Connection;
use phalanx_base::Result;
use phalanx_ps::Client;
use phalanx_ps::client::{Pulled, Push, RowSet, UpdateMode};
use std::time::Duration;

/// How long a call waits at the barrier before it is repeated; in between, the task checks whether the job is over.
pub(super) const WAIT: Duration = Duration::from_secs(1);

/// `SyncReplicasOptimizer`: every update is the mean of `replicas_to_aggregate` gradients. More trainers than that are
/// backup workers, whose late gradients are dropped and counted; with fewer, each contributes several batches.
///
/// ```
/// use phalanx_optim::Sgd;
/// use phalanx_train::{Server, Supervisor, SyncReplicas};
/// let sync = SyncReplicas { replicas_to_aggregate: Some(3) }; // of four trainers: one is a backup
/// let supervisor = Supervisor::new(&Server::local()?, Sgd::new(0.1)).sync(sync);
/// # let _ = supervisor;
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncReplicas {
    /// How many gradients make an update; by default one from each trainer.
    pub replicas_to_aggregate: Option<u32>,
}

pub(super) struct Rounds {
    /// The round to compute for.
    round: u64,
    replicas: u32,
}

impl Rounds {
    pub(super) fn join(client: &Client, replicas_to_aggregate: u32) -> Result<Self> {
        Ok(Self { round: client.join_rounds(replicas_to_aggregate)?, replicas: replicas_to_aggregate })
    }

    pub(super) fn mode(&self) -> UpdateMode {
        UpdateMode::Synchronous { round: self.round, closed: self.round }
    }

    /// Contributes, waits until the round is closed, then fetches what came of it. `None` when the job is over.
    pub(super) fn exchange(
        &mut self,
        connection: &mut Connection,
        push: Option<&Push>,
        sets: &[RowSet],
    ) -> Result<Option<Pulled>> {
        if let Some(push) = push {
            connection.push(push, self.mode())?;
            loop {
                if let Some(round) = connection.client.arrive(push.id.sequence, self.round, self.replicas, WAIT)? {
                    self.round = round;
                    break;
                }
                if connection.server.should_stop() {
                    return Ok(None);
                }
                // The round may wait for a trainer that is lost, and closes only once that one is fenced.
                connection.finish_lost_updates(true)?;
            }
        }
        connection.exchange(None, sets, self.mode()).map(Some)
    }
}
