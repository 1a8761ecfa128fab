//! Bounded staleness: no trainer runs far ahead of the slowest one.

use super::connection::Connection;
use super::rounds::WAIT;
use phalanx_base::Result;
use phalanx_ps::Client;
use phalanx_ps::client::{Pulled, Push, RowSet, UpdateMode};

/// Asynchronous training in which no trainer is more than `steps` steps ahead of the slowest one. Trainers that have left
/// or are lost do not count.
///
/// ```
/// use phalanx_optim::Sgd;
/// use phalanx_train::{BoundedStaleness, Server, Supervisor};
/// let supervisor = Supervisor::new(&Server::local()?, Sgd::new(0.1)).bounded(BoundedStaleness { steps: 3 });
/// # let _ = supervisor;
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundedStaleness {
    /// How many steps a trainer may be ahead.
    pub steps: u64,
}

/// A trainer's clock, which counts its steps. The first server compares the clocks of all trainers.
pub(super) struct Lead {
    most: u64,
    /// The clock when this trainer joined, and the steps that it had sent by then.
    start: u64,
    sent: u64,
}

impl Lead {
    /// Joins with the clock of the slowest trainer.
    pub(super) fn join(client: &Client, bound: BoundedStaleness, sent: u64) -> Result<Self> {
        Ok(Self { most: bound.steps, start: client.join_clocks()?, sent })
    }

    /// Sends a step, waits until this trainer is not too far ahead, then fetches values. `None` when the job is over.
    pub(super) fn exchange(
        &mut self,
        connection: &mut Connection,
        push: Option<&Push>,
        sets: &[RowSet],
    ) -> Result<Option<Pulled>> {
        if let Some(push) = push {
            connection.push(push, UpdateMode::Asynchronous)?;
            let clock = self.start.saturating_add(push.id.sequence.saturating_sub(self.sent));
            while !connection.client.advance_clock(clock, self.most, WAIT)? {
                if connection.server.should_stop() {
                    return Ok(None);
                }
                // The slowest trainer may be lost; its clock counts until it is fenced.
                connection.finish_lost_updates(false)?;
            }
        }
        connection.exchange(None, sets, UpdateMode::Asynchronous).map(Some)
    }
}
