//! `Dataset`: the plan of an input pipeline, which can be iterated repeatedly.

mod batch;
mod blocks;
mod cache;
mod chunk_buffer;
mod concatenate;
mod enumerate;
mod files;
mod filter;
mod flat_map;
mod generate;
mod interleave;
mod iter;
mod map;
mod memory;
mod node;
mod options;
mod padded;
mod parallel;
mod prefetch;
mod random;
mod range;
mod rebatch;
mod repeat;
mod shard;
mod shuffle;
mod start;
mod take;
mod transform;
mod unbatch;
mod zip;

use crate::position::{Loader, damaged};
use crate::{Position, Sharding};
pub(crate) use blocks::BlocksOp;
pub use flat_map::Interleave;
pub use iter::DatasetIter;
pub use map::Parallel;
use node::{Context, Stage};
pub(crate) use node::{ElementKind, Node, Op, Shardability};
pub use options::{AUTOTUNE, Options};
pub use padded::Padding;
use phalanx_base::{Code, Error, Result};
use random::{fresh_seed, mix};
pub(crate) use shard::ShardOp;
pub use shard::ShardSpec;
pub use start::SourceExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A lazy sequence of elements, with the methods and meanings of `tf.data.Dataset`.
///
/// An element is a row of named columns, or a [`Batch`](crate::Batch) of them after [`Dataset::batch`]. Nothing is read before
/// [`Dataset::iter`]; every `iter` starts from the beginning. Between the stages rows travel in chunks, so that no
/// stage pays per row unless it runs a function of yours per row.
///
/// Wrong settings (a batch of 0) are reported by `iter`, so that pipelines can be written as one chain:
///
/// ```
/// use phalanx_data::{Batch, Column, Dataset};
/// let rows = Batch::new([("x", Column::f32(vec![1.0, 2.0, 3.0])), ("y", Column::i64(vec![0, 1, 1]))])?;
/// let data = Dataset::from_tensor_slices(rows).shuffle_seeded(100, 1).repeat_times(2).batch(4);
/// for batch in data.iter()? {
///     let batch = batch?;
///     assert!(batch.f32("x")?.len() == batch.i64("y")?.len());
/// }
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone)]
pub struct Dataset {
    node: Node,
    options: Options,
    /// How many passes have started: each is shuffled differently. Shared by clones, as in TensorFlow.
    passes: Arc<AtomicU64>,
    /// What un-seeded shuffles draw from.
    seed: u64,
    /// How it was divided among workers, if it was.
    sharding: Option<Arc<Sharding>>,
}

impl Dataset {
    fn from_op(op: impl Op + 'static) -> Self {
        Self::from_node(Node::new(Arc::new(op), []), Options::default(), fresh_seed())
    }

    fn from_node(node: Node, options: Options, seed: u64) -> Self {
        Self { node, options, passes: Arc::default(), seed, sharding: None }
    }

    /// A dataset that cannot be read: every pass fails with this error. A function that returns a dataset reports so that it has
    /// none.
    ///
    /// ```
    /// use phalanx_base::{Code, Error};
    /// use phalanx_data::Dataset;
    /// let data = Dataset::broken(Error::new(Code::DataMissing, "there is no such table"));
    /// assert_eq!(data.batch(2).iter().unwrap_err().code(), Code::DataMissing);
    /// ```
    #[must_use]
    pub fn broken(error: Error) -> Self {
        Self::from_op(BrokenOp(error))
    }

    /// This dataset with one more stage.
    fn then(self, op: impl Op + 'static) -> Self {
        let node = Node::new(Arc::new(op), [self.node]);
        Self { sharding: self.sharding, ..Self::from_node(node, self.options, self.seed) }
    }

    /// Two datasets joined by a stage.
    fn join(self, other: Self, op: impl Op + 'static) -> Self {
        let options = self.options.then(other.options);
        let node = Node::new(Arc::new(op), [self.node, other.node]);
        let sharding = self.sharding.or(other.sharding);
        Self { sharding, ..Self::from_node(node, options, mix(self.seed, other.seed)) }
    }

    /// The same dataset with its plan changed for one worker.
    pub(crate) fn shared(&self, node: Node, sharding: &Sharding) -> Self {
        Self { sharding: Some(Arc::new(sharding.clone())), ..Self::from_node(node, self.options, self.seed) }
    }

    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    /// Sets options for the whole pipeline; later ones win.
    #[must_use]
    pub fn with_options(self, options: Options) -> Self {
        Self { options: self.options.then(options), passes: Arc::default(), ..self }
    }

    /// Returns the options set so far.
    #[must_use]
    pub fn options(&self) -> Options {
        self.options
    }

    /// Returns how the dataset is divided among workers, if it is; worth logging once.
    #[must_use]
    pub fn sharding(&self) -> Option<&Sharding> {
        self.sharding.as_deref()
    }

    /// Whether an element is a batch rather than a row.
    #[must_use]
    pub fn is_batched(&self) -> bool {
        self.node.kind() == ElementKind::Batches
    }

    /// Fails unless an element is a batch, as everything that trains or evaluates needs it.
    ///
    /// ```
    /// use phalanx_data::{Batch, Column, Dataset, SourceExt};
    /// let rows = Dataset::from_tensor_slices(Batch::new([("x", Column::f32(vec![1.0, 2.0]))])?);
    /// assert!(rows.check_batched().is_err());
    /// rows.batch(2).check_batched()?;
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// If an element is a row.
    pub fn check_batched(&self) -> Result<()> {
        if self.is_batched() {
            return Ok(());
        }
        Err(Error::new(Code::BadSetting, "the input is not batched")
            .because(format!("it is {}", self.describe()))
            .help("end it with .batch(128), or another size"))
    }

    /// Returns the maximum number of rows of an element, if it is known in advance: the size of the last `batch`.
    #[must_use]
    pub fn batch_size(&self) -> Option<usize> {
        self.node.batch_size()
    }

    /// Starts a pass over the elements.
    ///
    /// # Errors
    /// When a setting is wrong, or a file cannot be opened. The iterator returns later errors in place of an element, and
    /// then ends.
    pub fn iter(&self) -> Result<DatasetIter> {
        self.iter_pass(self.passes.fetch_add(1, Ordering::Relaxed))
    }

    /// Starts the pass with this number, from 0: every pass of a reshuffled dataset has its own order.
    ///
    /// # Errors
    /// As [`Dataset::iter`].
    pub fn iter_pass(&self, pass: u64) -> Result<DatasetIter> {
        let stage = self.node.open(self.context(pass, self.seed), None)?;
        Ok(DatasetIter::new(stage, self, pass, self.seed))
    }

    /// Continues a pass with exactly the element after those returned when the position was taken.
    ///
    /// The next [`Dataset::iter`] is then the pass after that one.
    ///
    /// # Errors
    /// When the position belongs to another pipeline or other files, or they cannot be opened.
    pub fn iter_from(&self, position: &Position) -> Result<DatasetIter> {
        if position.fingerprint != self.fingerprint() {
            return Err(Error::new(Code::CheckpointMismatch, "the saved position belongs to another input pipeline")
                .because(format!("the present one is {}", self.describe()))
                .help("restore with the pipeline that was saved, or start the input from its beginning"));
        }
        self.passes.fetch_max(position.iteration + 1, Ordering::Relaxed);
        let stage: Box<dyn Stage> = if position.ended {
            Box::new(Nothing)
        } else {
            let mut from = Loader::new(&position.stages);
            let stage = self.node.open(self.context(position.iteration, position.seed), Some(&mut from))?;
            if !from.is_empty() {
                return Err(damaged("there is more than was written"));
            }
            stage
        };
        Ok(DatasetIter::new(stage, self, position.iteration, position.seed).resumed(position))
    }

    /// Returns the stages on one line, sources first.
    ///
    /// ```
    /// use phalanx_data::Dataset;
    /// assert_eq!(Dataset::range(0, 3, 1).take(2).batch(2).describe(), "range(0 by 1 × 3) → take(2) → batch(2)");
    /// ```
    #[must_use]
    pub fn describe(&self) -> String {
        self.node.describe()
    }

    /// Identifies the stages and those of their settings that determine the elements.
    pub(crate) fn fingerprint(&self) -> u64 {
        phalanx_formats::fingerprint::fingerprint64(self.describe().as_bytes())
    }

    fn context(&self, pass: u64, seed: u64) -> Context {
        Context { seed, epoch: pass, round: 0, path: 0, options: self.options }
    }
}

impl std::fmt::Debug for Dataset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dataset({})", self.describe())
    }
}

/// Replaces a stage that had wrong settings.
struct BrokenOp(Error);

impl Op for BrokenOp {
    fn describe(&self) -> String {
        format!("wrong settings: {}", self.0.what())
    }

    fn open(&self, _: &[Node], _: Context, _: Option<&mut Loader<'_>>) -> Result<Box<dyn Stage>> {
        Err(self.0.clone())
    }

    fn shardability(&self) -> Shardability {
        Shardability::Source
    }
}

/// A stage at its end.
struct Nothing;

impl Stage for Nothing {
    fn next(&mut self, _: usize) -> Result<Option<crate::Batch>> {
        Ok(None)
    }

    fn save(&self, _: &mut crate::position::Saver) {}
}
