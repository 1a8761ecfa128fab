//! Blocks: the elements that this worker claims, a block at a time.

use super::node::{CHUNK, Context, ElementKind, Node, Op, Shardability, Stage, open_input};
use crate::position::{Loader, Saver};
use crate::{Batch, BlockClaims, Dataset};
use phalanx_base::{Code, Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How many rows a block has. A claim is one message, and a worker's last block is what others may wait for at the end.
const ROWS: u64 = 256;

/// How many batches a block has where elements are batches.
const BATCHES: u64 = 4;

/// What a `repeat` has to know of the blocks below it.
#[derive(Default)]
pub(crate) struct BlockRounds {
    newest: AtomicU64,
    took_part: AtomicBool,
}

impl BlockRounds {
    /// Returns the round after this one in which there may be blocks left.
    pub(crate) fn after(&self, round: u64) -> u64 {
        self.newest.load(Ordering::Relaxed).max(round + 1)
    }

    /// Whether this worker had a block in the round that ends, or there was none for anybody. A round that others have
    /// taken completely says nothing about the input.
    pub(crate) fn end_round(&self) -> bool {
        self.took_part.swap(false, Ordering::Relaxed)
    }
}

pub(crate) struct BlocksOp {
    workers: usize,
    /// `None` until the task knows who hands out the blocks.
    claims: Option<Arc<dyn BlockClaims>>,
    rounds: Arc<BlockRounds>,
}

impl BlocksOp {
    pub(crate) fn new(workers: usize) -> Self {
        Self { workers, claims: None, rounds: Arc::default() }
    }
}

impl Op for BlocksOp {
    fn describe(&self) -> String {
        format!("blocks({})", self.workers)
    }

    fn open(&self, inputs: &[Node], cx: Context, mut from: Option<&mut Loader<'_>>) -> Result<Box<dyn Stage>> {
        let Some(claims) = self.claims.clone() else {
            return Err(Error::new(Code::BadSetting, "nobody hands out the blocks of this input")
                .at(self.describe())
                .because("only estimators and job files with parameter servers share their input by blocks")
                .help("set the auto shard policy to AUTO or DATA"));
        };
        let mut block = Block::default();
        if let Some(from) = from.as_deref_mut() {
            block = Block { passed: from.u64()?, claimed: from.u64()?, left: from.u64()? };
        }
        let input = inputs[0].clone();
        let upstream = open_input(inputs, cx, from)?;
        Ok(Box::new(BlocksStage { input, cx, upstream, block, claims, rounds: Arc::clone(&self.rounds) }))
    }

    fn turns(&self) -> usize {
        self.workers
    }

    fn shardability(&self) -> Shardability {
        Shardability::ByOrder
    }

    fn block_rounds(&self) -> Option<&Arc<BlockRounds>> {
        Some(&self.rounds)
    }

    fn claiming(&self, claims: &Arc<dyn BlockClaims>) -> Option<Arc<dyn Op>> {
        let rounds = Arc::clone(&self.rounds);
        Some(Arc::new(Self { workers: self.workers, claims: Some(Arc::clone(claims)), rounds }))
    }
}

/// Where a worker is in a round.
#[derive(Default)]
struct Block {
    /// How many elements of the input have been read or skipped.
    passed: u64,
    /// How many blocks have been claimed.
    claimed: u64,
    /// How many elements of the newest one are left.
    left: u64,
}

struct BlocksStage {
    input: Node,
    cx: Context,
    upstream: Box<dyn Stage>,
    block: Block,
    claims: Arc<dyn BlockClaims>,
    rounds: Arc<BlockRounds>,
}

impl BlocksStage {
    /// Claims the next block and goes to its first element. `false`: there is none.
    fn next_block(&mut self) -> Result<bool> {
        let kind = self.input.kind();
        let size = if kind == ElementKind::Rows { ROWS } else { BATCHES };
        let claim = self.claims.claim(self.cx.round, self.block.claimed)?;
        self.rounds.newest.fetch_max(claim.newest_round, Ordering::Relaxed);
        let Some(start) = claim.block.map(|block| block.saturating_mul(size)) else { return Ok(false) };
        self.block.claimed += 1;
        if start < self.block.passed {
            // The blocks are handed out from the first again: whoever handed them out was lost.
            self.upstream = self.input.open(self.cx.child(0), None)?;
            self.block.passed = 0;
        }
        let ahead = start - self.block.passed;
        self.block.passed += self.upstream.skip(ahead, kind)?;
        self.block.left = size;
        Ok(self.block.passed == start)
    }
}

impl Stage for BlocksStage {
    fn next(&mut self, max: usize) -> Result<Option<Batch>> {
        let kind = self.input.kind();
        if (self.block.left > 0 || self.next_block()?)
            && let Some(chunk) = self.upstream.next(usize::try_from(self.block.left).unwrap_or(CHUNK).min(max))?
        {
            let count = kind.elements(&chunk) as u64;
            self.block.passed += count;
            self.block.left = self.block.left.saturating_sub(count);
            self.rounds.took_part.store(true, Ordering::Relaxed);
            return Ok(Some(chunk));
        }
        if self.block.passed == 0 {
            // An input without elements ends a `repeat`, whoever claimed the first block.
            self.rounds.took_part.store(true, Ordering::Relaxed);
        }
        self.block.left = 0;
        Ok(None)
    }

    fn save(&self, out: &mut Saver) {
        out.u64(self.block.passed);
        out.u64(self.block.claimed);
        out.u64(self.block.left);
        self.upstream.save(out);
    }
}

impl Dataset {
    /// Lets `claims` hand out the blocks of an input that is shared by [`AutoShardPolicy::Blocks`](crate::AutoShardPolicy::Blocks);
    /// any other input stays as it is.
    ///
    /// ```
    /// use phalanx_data::{AutoShardPolicy, BlockClaim, BlockClaims, Dataset, InputContext, Options};
    /// use std::sync::{Arc, atomic::{AtomicU64, Ordering}};
    ///
    /// /// Hands out the blocks of one round.
    /// struct Counter(AtomicU64);
    /// impl BlockClaims for Counter {
    ///     fn claim(&self, _round: u64, _number: u64) -> phalanx_base::Result<BlockClaim> {
    ///         Ok(BlockClaim { block: Some(self.0.fetch_add(1, Ordering::Relaxed)), newest_round: 0 })
    ///     }
    /// }
    ///
    /// let blocks = Options { auto_shard_policy: Some(AutoShardPolicy::Blocks), ..Options::default() };
    /// let cx = InputContext { num_input_pipelines: 2, input_pipeline_id: 0, num_replicas_in_sync: 2 };
    /// let data = Dataset::range(0, 1000, 1).with_options(blocks).shard(cx).batch(1000);
    /// let counter: Arc<dyn BlockClaims> = Arc::new(Counter(AtomicU64::new(0)));
    /// // This worker is never kept waiting by another one, so it gets every block.
    /// let all = data.with_block_claims(&counter).iter()?.next().unwrap()?;
    /// assert_eq!(all.rows(), 1000);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    #[must_use]
    pub fn with_block_claims(&self, claims: &Arc<dyn BlockClaims>) -> Self {
        fn claiming(node: &Node, claims: &Arc<dyn BlockClaims>) -> Node {
            let inputs: Vec<Node> = node.inputs().iter().map(|input| claiming(input, claims)).collect();
            match node.op().claiming(claims) {
                Some(op) => Node::new(op, inputs),
                None => node.with_inputs(inputs),
            }
        }
        if self.node().block_rounds().is_none() {
            return self.clone();
        }
        Self { node: claiming(self.node(), claims), ..self.clone() }
    }
}
