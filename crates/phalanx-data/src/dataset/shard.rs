//! `shard`: every n-th element.

use super::node::{CHUNK, Context, ElementKind, Node, Op, Shardability, Stage, open_counted};
use crate::position::{Loader, Saver};
use crate::{Batch, Dataset, InputContext};
use phalanx_base::{Code, Error, Result};

pub(crate) struct ShardOp {
    pub(crate) of: usize,
    pub(crate) index: usize,
    /// Whether every round of a `repeat` takes the next share.
    pub(crate) rotates: bool,
}

impl Op for ShardOp {
    fn describe(&self) -> String {
        let rotates = if self.rotates { ", rotating" } else { "" };
        format!("shard({}, {}{rotates})", self.of, self.index)
    }

    fn open(&self, inputs: &[Node], cx: Context, from: Option<&mut Loader<'_>>) -> Result<Box<dyn Stage>> {
        let kind = inputs[0].kind();
        let (phase, upstream) = open_counted(inputs, cx, from, 0)?;
        let phase = (phase % self.of as u64) as usize;
        let index = if self.rotates { rotated(self.index, cx.round, self.of) } else { self.index };
        Ok(Box::new(ShardStage { upstream, kind, of: self.of, index, phase }))
    }

    fn turns(&self) -> usize {
        if self.rotates { self.of } else { 1 }
    }

    fn shardability(&self) -> Shardability {
        Shardability::ByOrder
    }
}

/// Returns the share that share number `index` becomes in a round.
pub(crate) fn rotated(index: usize, round: u64, of: usize) -> usize {
    (index + (round % of as u64) as usize) % of
}

struct ShardStage {
    upstream: Box<dyn Stage>,
    kind: ElementKind,
    of: usize,
    index: usize,
    /// The next element's number, modulo `of`.
    phase: usize,
}

impl Stage for ShardStage {
    fn next(&mut self, max: usize) -> Result<Option<Batch>> {
        if self.of == 1 {
            return self.upstream.next(max);
        }
        loop {
            // Not more than can be kept: of `max × of` elements, `max` are ours.
            let Some(chunk) = self.upstream.next(max.saturating_mul(self.of).min(CHUNK.max(self.of)))? else {
                return Ok(None);
            };
            let count = self.kind.elements(&chunk);
            let first = (self.index + self.of - self.phase) % self.of;
            self.phase = (self.phase + count) % self.of;
            if first >= count {
                continue;
            }
            if self.kind == ElementKind::Batches {
                return Ok(Some(chunk));
            }
            return Ok(Some(chunk.pick_rows((first..count).step_by(self.of).map(|row| row as u32))));
        }
    }

    fn save(&self, out: &mut Saver) {
        out.u64(self.phase as u64);
        self.upstream.save(out);
    }
}

/// What [`Dataset::shard`] takes: a worker's context, or a number of shards and an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardSpec {
    /// A worker's share, divided by file or by element as [`Dataset::shard_for`] chooses.
    Worker(InputContext),
    /// The elements whose number, at this place of the pipeline, leaves the remainder `index` when divided by `of`.
    Every {
        /// How many shards.
        of: usize,
        /// Which of them, from 0.
        index: usize,
    },
}

impl From<InputContext> for ShardSpec {
    fn from(cx: InputContext) -> Self {
        Self::Worker(cx)
    }
}

impl From<&InputContext> for ShardSpec {
    fn from(cx: &InputContext) -> Self {
        Self::Worker(*cx)
    }
}

impl From<(usize, usize)> for ShardSpec {
    fn from((of, index): (usize, usize)) -> Self {
        Self::Every { of, index }
    }
}

impl Dataset {
    /// A share of the elements: a worker's, or every n-th one. May be none.
    ///
    /// With an [`InputContext`] the input is divided among workers as [`Dataset::shard_for`] chooses, wherever in the
    /// chain it is called; [`Dataset::sharding`] tells the choice. With `(n, index)` it is TensorFlow's `shard`: place
    /// it before `shuffle`, `repeat` and `batch`.
    ///
    /// ```
    /// use phalanx_data::{Dataset, InputContext};
    /// let all = Dataset::range(0, 7, 1).shard((3, 1)).batch(9).iter()?.next().unwrap()?;
    /// assert_eq!(all.i64("value")?, [1, 4]);
    ///
    /// let cx = InputContext { num_input_pipelines: 2, input_pipeline_id: 0, num_replicas_in_sync: 2 };
    /// let data = Dataset::range(0, 7, 1).shuffle(7).batch(9).shard(cx);
    /// assert_eq!(data.iter()?.next().unwrap()?.rows(), 4);
    /// assert!(data.sharding().unwrap().to_string().starts_with("worker 0 of 2 takes every 2nd element"));
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    #[must_use]
    pub fn shard(self, share: impl Into<ShardSpec>) -> Self {
        let (of, index) = match share.into() {
            ShardSpec::Worker(cx) => {
                return match self.shard_for(&cx) {
                    Ok((own, _)) => own,
                    Err(error) => Self::broken(error),
                };
            }
            ShardSpec::Every { of, index } => (of, index),
        };
        let place = format!("shard({of}, {index})");
        if of == 0 {
            return Self::broken(Error::new(Code::BadSetting, "number of shards must be greater than zero").at(place));
        }
        if index >= of {
            return Self::broken(
                Error::new(Code::BadSetting, format!("index must be between 0 and {}", of - 1)).at(place),
            );
        }
        self.then(ShardOp { of, index, rotates: false })
    }
}
