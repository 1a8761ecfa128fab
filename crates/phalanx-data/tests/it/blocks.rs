//! Workers that take blocks of the input as they become free.

use crate::common::{all, cx, values};
use phalanx_base::Code;
use phalanx_data::{AutoShardPolicy, BlockClaim, BlockClaims, Dataset, Options, Position, ShardedBy};
use std::sync::{Arc, Mutex};

/// Hands out blocks as a parameter server does: in order, and none of a round that somebody has left behind.
#[derive(Default)]
struct Handout(Mutex<(u64, u64)>);

impl BlockClaims for Handout {
    fn claim(&self, round: u64, _: u64) -> phalanx_base::Result<BlockClaim> {
        let mut state = self.0.lock().unwrap();
        if round > state.0 {
            *state = (round, 0);
        }
        let block = (round == state.0).then_some(state.1);
        state.1 += u64::from(block.is_some());
        Ok(BlockClaim { block, newest_round: state.0 })
    }
}

fn handout() -> Arc<dyn BlockClaims> {
    Arc::new(Handout::default())
}

fn by_blocks(data: Dataset) -> Dataset {
    data.with_options(Options { auto_shard_policy: Some(AutoShardPolicy::Blocks), ..Options::default() })
}

fn counts(seen: &[i64], rows: usize) -> Vec<usize> {
    let mut counts = vec![0; rows];
    seen.iter().for_each(|&value| counts[value as usize] += 1);
    counts
}

#[test]
fn every_row_goes_to_one_worker_in_every_round_and_a_fast_worker_takes_more() {
    let (rows, claims) = (2000, handout());
    let input = by_blocks(Dataset::range(0, rows as i64, 1)).repeat_times(3).batch(100);
    let share = |worker| input.clone().shard(cx(worker, 2)).with_block_claims(&claims);
    assert_eq!(input.shard_for(&cx(0, 2)).unwrap().1.by, ShardedBy::Blocks);
    let (mut fast, mut slow) = (share(0).iter().unwrap(), share(1).iter().unwrap());
    let (mut by_fast, mut by_slow, mut ended) = (Vec::new(), Vec::new(), false);
    while !ended {
        // The slow worker takes a batch whenever the fast one has taken nine.
        for turn in 0..10 {
            let (from, to) = if turn < 9 { (&mut fast, &mut by_fast) } else { (&mut slow, &mut by_slow) };
            match from.next().transpose().unwrap() {
                Some(batch) => to.extend_from_slice(batch.i64("value").unwrap()),
                None => ended |= turn == 9,
            }
        }
    }
    assert!(by_fast.len() > 3 * by_slow.len() && !by_slow.is_empty(), "{} and {}", by_fast.len(), by_slow.len());
    by_fast.extend(by_slow);
    assert_eq!(counts(&by_fast, rows), vec![3; rows]);
}

#[test]
fn a_position_continues_inside_of_a_block() {
    let claims = handout();
    let input = by_blocks(Dataset::range(0, 1000, 1)).batch(100).shard(cx(1, 2)).with_block_claims(&claims);
    let mut first = input.iter().unwrap();
    let mut seen: Vec<i64> = Vec::new();
    for _ in 0..3 {
        seen.extend_from_slice(first.next().unwrap().unwrap().i64("value").unwrap());
    }
    let position = Position::from_bytes(&first.position().to_bytes()).unwrap();
    for batch in input.iter_from(&position).unwrap() {
        seen.extend_from_slice(batch.unwrap().i64("value").unwrap());
    }
    assert_eq!(seen, (0..1000).collect::<Vec<_>>());
}

#[test]
fn blocks_that_are_handed_out_again_are_read_again() {
    /// Forgets what it has handed out, as a server that was restarted.
    struct Forgetful(Mutex<Vec<u64>>);
    impl BlockClaims for Forgetful {
        fn claim(&self, _: u64, _: u64) -> phalanx_base::Result<BlockClaim> {
            Ok(BlockClaim { block: self.0.lock().unwrap().pop(), newest_round: 0 })
        }
    }
    let claims: Arc<dyn BlockClaims> = Arc::new(Forgetful(Mutex::new(vec![3, 1, 0, 2])));
    let input = by_blocks(Dataset::range(0, 900, 1)).batch(900).shard(cx(0, 2)).with_block_claims(&claims);
    let seen = values(&all(&input).unwrap());
    assert_eq!(seen, (512..768).chain(0..512).chain(768..900).collect::<Vec<_>>());
}

#[test]
fn an_endless_repetition_of_nothing_ends() {
    for data in [Dataset::range(0, 0, 1), Dataset::range(0, 600, 1).filter(|_| Ok(false))] {
        let input = by_blocks(data).repeat().batch(10).shard(cx(0, 2)).with_block_claims(&handout());
        assert!(all(&input).unwrap().is_empty());
    }
}

#[test]
fn without_claims_the_input_cannot_be_read() {
    let error = by_blocks(Dataset::range(0, 10, 1)).batch(5).shard(cx(0, 2)).iter().err().unwrap();
    assert_eq!(error.code(), Code::BadSetting);
    assert!(error.to_string().contains("nobody hands out the blocks"), "{error}");
    // One worker has all of them without asking.
    let alone = by_blocks(Dataset::range(0, 10, 1)).batch(5).shard(cx(0, 1));
    assert_eq!(values(&all(&alone).unwrap()).len(), 10);
}
