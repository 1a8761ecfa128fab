//! The blocks of the input that trainers claim: each is handed out once in a round.

use super::TaskIncarnation;
use crate::proto::{BlockClaimed, ClaimBlock, Claimed, Claims};
use phalanx_base::Result;
use phalanx_wire::{task_from_wire, task_to_wire};
use std::collections::BTreeMap;

/// The newest round and its next block. A trainer begins a round after it has seen the end of the round before, so all blocks of
/// older rounds are taken.
#[derive(Debug, Default)]
pub(crate) struct BlockClaims {
    round: u64,
    next: u64,
    /// The newest claim of every trainer, which it may repeat.
    answered: BTreeMap<TaskIncarnation, (ClaimBlock, Option<u64>)>,
}

impl BlockClaims {
    /// Answers a claim; a repeated one gets the same block.
    pub(crate) fn claim(&mut self, from: TaskIncarnation, ask: ClaimBlock) -> BlockClaimed {
        let repeated = self.answered.get(&from).filter(|(before, _)| *before == ask);
        let block = match repeated {
            Some((_, block)) => *block,
            None => self.take(ask.round),
        };
        self.answered.insert(from, (ask, block));
        BlockClaimed { block, newest_round: self.round }
    }

    /// Returns everything.
    pub(crate) fn state(&self) -> Claims {
        let claimed = |(&(task, incarnation), &(claim, block)): (&TaskIncarnation, &(ClaimBlock, Option<u64>))| {
            let task = Some(task_to_wire(task, incarnation));
            Claimed { task, claim: Some(claim), block }
        };
        Claims { round: self.round, next: self.next, claimed: self.answered.iter().map(claimed).collect() }
    }

    /// Continues from [`Self::state`].
    pub(crate) fn resume(state: Claims) -> Result<Self> {
        let answered = |Claimed { task, claim, block }: Claimed| {
            Ok((task_from_wire(task.as_ref())?, (claim.unwrap_or_default(), block)))
        };
        let answered = state.claimed.into_iter().map(answered).collect::<Result<_>>()?;
        Ok(Self { round: state.round, next: state.next, answered })
    }

    /// Forgets a trainer that claims nothing any more.
    pub(crate) fn leave(&mut self, trainer: TaskIncarnation) {
        self.answered.remove(&trainer);
    }

    fn take(&mut self, round: u64) -> Option<u64> {
        if round < self.round {
            return None;
        }
        if round > self.round {
            (self.round, self.next) = (round, 0);
        }
        let block = self.next;
        self.next = block.saturating_add(1);
        Some(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_base::{Incarnation, Role, TaskId};

    fn worker(index: u32) -> TaskIncarnation {
        (TaskId::new(Role::Worker, index), Incarnation(7))
    }

    #[test]
    fn every_block_of_a_round_is_handed_out_once_and_a_repeated_claim_gets_the_same() {
        let mut claims = BlockClaims::default();
        let mut claim = |index, round, number| claims.claim(worker(index), ClaimBlock { round, number }).block;
        assert_eq!([claim(0, 0, 0), claim(1, 0, 0), claim(0, 0, 1)], [Some(0), Some(1), Some(2)]);
        assert_eq!([claim(1, 0, 0), claim(0, 0, 1), claim(1, 0, 1)], [Some(1), Some(2), Some(3)]);
    }

    #[test]
    fn a_round_is_over_for_everybody_once_a_trainer_has_begun_the_next() {
        let mut claims = BlockClaims::default();
        let mut claim = |index, round, number| claims.claim(worker(index), ClaimBlock { round, number });
        assert_eq!(claim(0, 0, 0).block, Some(0));
        assert_eq!(claim(1, 3, 0), BlockClaimed { block: Some(0), newest_round: 3 });
        assert_eq!(claim(0, 0, 1), BlockClaimed { block: None, newest_round: 3 });
        assert_eq!(claim(0, 3, 0).block, Some(1));
    }

    #[test]
    fn another_incarnation_gets_blocks_of_its_own() {
        let mut claims = BlockClaims::default();
        let again = (worker(0).0, Incarnation(8));
        let ask = ClaimBlock { round: 0, number: 0 };
        assert_eq!(claims.claim(worker(0), ask).block, Some(0));
        claims.leave(worker(0));
        assert_eq!(claims.claim(again, ask).block, Some(1));
    }

    #[test]
    fn a_round_at_the_end_of_all_numbers_is_answered() {
        let mut claims = BlockClaims { next: u64::MAX, round: u64::MAX, ..BlockClaims::default() };
        let ask = |number| ClaimBlock { round: u64::MAX, number };
        assert_eq!(claims.claim(worker(0), ask(0)).block, Some(u64::MAX));
        assert_eq!(claims.claim(worker(0), ask(1)).block, Some(u64::MAX));
    }
}
