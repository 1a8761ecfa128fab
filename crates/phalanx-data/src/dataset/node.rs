//! The plan of a pipeline (immutable nodes) and its execution (stages, one set per iterator).

use super::blocks::BlockRounds;
use super::options::Options;
use super::random::mix;
use crate::position::{Loader, Saver};
use crate::{Batch, BlockClaims};
use phalanx_base::Result;
use std::sync::Arc;

/// How many rows a stage passes on at once, unless fewer are requested.
pub(crate) const CHUNK: usize = 1024;

/// What one element of a dataset is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ElementKind {
    /// A row: chunks of many elements travel between stages.
    Rows,
    /// A whole batch: each travels alone.
    Batches,
}

impl ElementKind {
    /// How many elements a chunk is.
    pub(crate) fn elements(self, chunk: &Batch) -> usize {
        match self {
            Self::Rows => chunk.rows(),
            Self::Batches => 1,
        }
    }
}

/// Whether a stage may be given only one worker's share of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shardability {
    /// It may: the results of all workers together are the complete result. `map`, `shuffle`, `batch`.
    ByRow,
    /// It may not: the result depends on how many rows came before. `take`, `enumerate`, `zip`.
    ByOrder,
    /// The stage is a source of rows.
    Source,
}

/// The settings a stage is opened with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    /// The seed of shuffles without a seed of their own.
    pub(crate) seed: u64,
    /// Identifies the pass over the dataset and the rounds of every `repeat` above.
    pub(crate) epoch: u64,
    /// The round of the nearest `repeat` above, 0 without one.
    pub(crate) round: u64,
    /// Where in the plan the stage is, so that two shuffles differ.
    pub(crate) path: u64,
    pub(crate) options: Options,
}

impl Context {
    pub(crate) fn child(self, index: usize) -> Self {
        Self { path: mix(self.path, index as u64 + 1), ..self }
    }

    pub(crate) fn round(self, round: u64) -> Self {
        Self { epoch: mix(self.epoch, round + 1), round, ..self }
    }
}

/// A stage at work.
pub(crate) trait Stage: Send {
    /// Returns the next elements: at least one row and at most `max` (which is not 0), or exactly one batch. `None` at the
    /// end, and from then on. After an error it is not called again.
    fn next(&mut self, max: usize) -> Result<Option<Batch>>;

    /// Saves what [`Op::open`] needs to continue after the elements returned so far.
    fn save(&self, out: &mut Saver);

    /// Skips up to `count` elements; returns how many there were.
    fn skip(&mut self, count: u64, kind: ElementKind) -> Result<u64> {
        let mut skipped = 0;
        while skipped < count {
            let max = usize::try_from(count - skipped).unwrap_or(CHUNK).min(CHUNK);
            let Some(chunk) = self.next(max)? else { break };
            skipped += kind.elements(&chunk) as u64;
        }
        Ok(skipped)
    }
}

/// One kind of stage with its settings: the plan.
pub(crate) trait Op: Send + Sync {
    /// Returns the name and the settings that determine the elements: part of the fingerprint. Empty for stages that do
    /// not change the elements, so that a position remains valid when buffers change.
    fn describe(&self) -> String;

    /// Starts the stage and its inputs, at the beginning or at a saved position.
    fn open(&self, inputs: &[Node], cx: Context, from: Option<&mut Loader<'_>>) -> Result<Box<dyn Stage>>;

    fn kind(&self, inputs: &[Node]) -> ElementKind {
        inputs.first().map_or(ElementKind::Rows, Node::kind)
    }

    fn shardability(&self) -> Shardability {
        Shardability::ByRow
    }

    /// Returns the maximum number of rows of an element, if known: the size of the global batch.
    fn batch_size(&self, inputs: &[Node]) -> Option<usize> {
        inputs.first().and_then(Node::batch_size)
    }

    /// This source's files, if it reads files.
    fn files(&self) -> Option<&super::files::FilesOp> {
        None
    }

    /// Returns a variant of the stage that keeps the order of elements, if this one does not.
    fn ordered(&self) -> Option<Arc<dyn Op>> {
        None
    }

    /// Returns the same stage without its cached elements: needed when its input changes.
    fn renewed(&self) -> Option<Arc<dyn Op>> {
        None
    }

    /// Returns how many rounds of a `repeat` it takes until the stage has seen every share of its input.
    fn turns(&self) -> usize {
        1
    }

    /// Returns the rounds of the blocks that this stage claims, if it claims any.
    fn block_rounds(&self) -> Option<&Arc<BlockRounds>> {
        None
    }

    /// Returns the same stage with `claims` to hand out its blocks, if it claims any.
    fn claiming(&self, _claims: &Arc<dyn BlockClaims>) -> Option<Arc<dyn Op>> {
        None
    }

    /// Whether the order of elements is random without a seed, so that workers disagree on it.
    fn is_unseeded(&self) -> bool {
        false
    }
}

/// A stage of the plan with its inputs. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Node {
    op: Arc<dyn Op>,
    inputs: Arc<[Self]>,
}

impl Node {
    pub(crate) fn new(op: Arc<dyn Op>, inputs: impl Into<Arc<[Self]>>) -> Self {
        Self { op, inputs: inputs.into() }
    }

    pub(crate) fn op(&self) -> &dyn Op {
        &*self.op
    }

    pub(crate) fn inputs(&self) -> &[Self] {
        &self.inputs
    }

    pub(crate) fn with_inputs(&self, inputs: Vec<Self>) -> Self {
        Self { op: self.op.renewed().unwrap_or_else(|| self.op.clone()), inputs: inputs.into() }
    }

    pub(crate) fn kind(&self) -> ElementKind {
        self.op.kind(&self.inputs)
    }

    pub(crate) fn batch_size(&self) -> Option<usize> {
        self.op.batch_size(&self.inputs)
    }

    /// Returns the most turns of a stage; see [`Op::turns`].
    pub(crate) fn turns(&self) -> usize {
        self.inputs.iter().map(Self::turns).fold(self.op.turns(), usize::max)
    }

    /// Returns the rounds of the blocks that a stage claims; see [`Op::block_rounds`].
    pub(crate) fn block_rounds(&self) -> Option<&Arc<BlockRounds>> {
        self.op.block_rounds().or_else(|| self.inputs.iter().find_map(Self::block_rounds))
    }

    pub(crate) fn open(&self, cx: Context, from: Option<&mut Loader<'_>>) -> Result<Box<dyn Stage>> {
        self.op.open(&self.inputs, cx, from)
    }

    /// Returns the plan on one line, sources first.
    pub(crate) fn describe(&self) -> String {
        let inputs: Vec<String> = self.inputs.iter().map(Self::describe).collect();
        let own = self.op.describe();
        match (inputs.as_slice(), own.is_empty()) {
            ([], _) => own,
            ([only], true) => only.clone(),
            ([only], false) => format!("{only} → {own}"),
            (several, _) => format!("({}) → {own}", several.join(", ")),
        }
    }
}

/// Opens the only input of a stage that saves one number before it in a position; the number is `fresh` at the start.
pub(crate) fn open_counted(
    inputs: &[Node],
    cx: Context,
    from: Option<&mut Loader<'_>>,
    fresh: u64,
) -> Result<(u64, Box<dyn Stage>)> {
    match from {
        Some(from) => Ok((from.u64()?, open_input(inputs, cx, Some(from))?)),
        None => Ok((fresh, open_input(inputs, cx, None)?)),
    }
}

/// Opens the only input of a stage.
pub(crate) fn open_input(inputs: &[Node], cx: Context, from: Option<&mut Loader<'_>>) -> Result<Box<dyn Stage>> {
    inputs[0].open(cx.child(0), from)
}
