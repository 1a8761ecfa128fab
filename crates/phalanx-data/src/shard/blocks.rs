//! Blocks of an input that workers take as they become free.

use phalanx_base::Result;

/// Hands out the blocks of the input that the workers of a job share, so that each block is taken once in a round of the
/// input; see [`AutoShardPolicy::Blocks`](super::AutoShardPolicy::Blocks).
pub trait BlockClaims: Send + Sync {
    /// Claims the next block of a round for this worker. `number` counts the worker's claims, from 0: the same claim again
    /// gets the same block.
    ///
    /// # Errors
    /// When whatever hands out the blocks cannot be asked.
    fn claim(&self, round: u64, number: u64) -> Result<BlockClaim>;
}

/// The answer to a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockClaim {
    /// The block of the round, counted from 0. `None`: every block of the round is taken, since a worker is in a later round.
    pub block: Option<u64>,
    /// The newest round in which a worker has claimed a block.
    pub newest_round: u64,
}
