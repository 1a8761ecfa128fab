//! The blocks of the input, as the first server hands them out.

use super::Session;
use phalanx_base::Result;
use phalanx_data::{BlockClaim, BlockClaims};
use phalanx_nn::Parameters;
use phalanx_ps::Client;
use std::sync::Arc;

struct ServerBlocks(Arc<Client>);

impl BlockClaims for ServerBlocks {
    fn claim(&self, round: u64, number: u64) -> Result<BlockClaim> {
        let claimed = self.0.claim_block(round, number)?;
        Ok(BlockClaim { block: claimed.block, newest_round: claimed.newest_round })
    }
}

impl<M: Parameters> Session<M> {
    /// Returns what hands out the blocks of an input that the trainers of this job share; see
    /// [`Dataset::with_block_claims`](phalanx_data::Dataset::with_block_claims).
    #[must_use]
    pub fn block_claims(&self) -> Arc<dyn BlockClaims> {
        Arc::new(ServerBlocks(Arc::clone(&self.connection.client)))
    }
}
