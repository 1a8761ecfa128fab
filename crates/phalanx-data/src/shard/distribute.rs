//! Divides a dataset into the batches of the replicas of one worker, step by step.

use super::{InputContext, ShardedBy, Sharding};
use crate::{Batch, Dataset, DatasetIter, Position};
use phalanx_base::{Code, Error, Result};

/// One worker's input: per-replica batches, several to a step.
#[derive(Clone, Debug)]
pub struct ReplicaDataset {
    dataset: Dataset,
    replicas: usize,
    sharding: Sharding,
}

/// Divides the global batches of a dataset among replicas, and the dataset among workers.
///
/// The batch of the dataset is the global one: a step of all replicas together takes one batch. With `n` replicas the
/// first `batch mod n` of them get one row more than the others. Where all workers can go through the data in one order
/// (no shuffle lacks a seed) and it is not shared by file, each takes its part of every batch, so that a step of many
/// replicas has the rows that a step of one would have. Otherwise workers have rows of their own, and every worker begins
/// the list of sizes where its own replicas stand in it. A replica's batch may be empty.
///
/// ```
/// use phalanx_data::{Dataset, InputContext, distribute_dataset};
/// let cx = InputContext { num_replicas_in_sync: 2, ..InputContext::default() };
/// let input = distribute_dataset(&Dataset::range(0, 7, 1).batch(3), &cx)?;
/// let sizes: Vec<Vec<usize>> =
///     input.iter()?.map(|step| step.unwrap().iter().map(|batch| batch.rows()).collect()).collect();
/// assert_eq!(sizes, [[2, 1], [2, 1], [1, 0]]);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
///
/// # Errors
/// When the dataset is not batched, the replicas do not divide evenly over the workers, or the input cannot be shared.
pub fn distribute_dataset(dataset: &Dataset, cx: &InputContext) -> Result<ReplicaDataset> {
    let replicas = cx.replicas_per_pipeline()?;
    if !dataset.is_batched() {
        return Err(Error::new(Code::BadSetting, "a dataset without batches cannot be distributed")
            .at(dataset.describe())
            .because("the global batch is divided among the replicas")
            .help("call batch with the global batch size first"));
    }
    if let Some((whole, sharding)) = dataset.in_one_order(cx)? {
        let first = cx.input_pipeline_id * replicas;
        let dataset = whole.pieces(cx.num_replicas_in_sync, first..first + replicas);
        return Ok(ReplicaDataset { dataset, replicas, sharding });
    }
    let (share, sharding) = dataset.shard_for(cx)?;
    let dataset = match (cx.num_replicas_in_sync, dataset.batch_size()) {
        (1, _) => share,
        (_, Some(batch)) => share.rebatch(replica_batch_sizes(batch, cx)?),
        (all, None) => share.split_batches(all),
    };
    Ok(ReplicaDataset { dataset, replicas, sharding })
}

/// Takes what an input function returns for this worker: batches per replica, sharded by the function itself.
///
/// ```
/// use phalanx_data::{Dataset, InputContext, datasets_from_function};
/// let cx = InputContext { num_input_pipelines: 2, input_pipeline_id: 1, num_replicas_in_sync: 2 };
/// let input = datasets_from_function(&cx, |cx| {
///     let size = cx.get_per_replica_batch_size(4)?;
///     Ok(Dataset::range(0, 8, 1).shard((cx.num_input_pipelines, cx.input_pipeline_id)).batch(size))
/// })?;
/// assert_eq!(input.iter()?.next().unwrap()?[0].i64("value")?, [1, 3]);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
///
/// # Errors
/// What the function returns, and a dataset that is not batched.
pub fn datasets_from_function(
    cx: &InputContext,
    function: impl FnOnce(&InputContext) -> Result<Dataset>,
) -> Result<ReplicaDataset> {
    let replicas = cx.replicas_per_pipeline()?;
    let dataset = function(cx)?;
    if !dataset.is_batched() {
        return Err(Error::new(Code::BadSetting, "an input function returned a dataset without batches")
            .at(dataset.describe())
            .help("call batch with cx.get_per_replica_batch_size(global)"));
    }
    let (worker, workers) = (cx.input_pipeline_id, cx.num_input_pipelines);
    let why = "the input function decides what is in it";
    Ok(ReplicaDataset { dataset, replicas, sharding: Sharding { worker, workers, by: ShardedBy::Nothing(why) } })
}

/// The sizes of the batches that follow each other at one worker: as many as there are replicas in all.
///
/// ```
/// use phalanx_data::{InputContext, replica_batch_sizes};
/// let cx = InputContext { num_input_pipelines: 2, input_pipeline_id: 1, num_replicas_in_sync: 4 };
/// assert_eq!(replica_batch_sizes(7, &cx)?, [2, 1, 2, 2]);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
///
/// # Errors
/// When the replicas do not divide evenly over the workers.
pub fn replica_batch_sizes(global_batch: usize, cx: &InputContext) -> Result<Vec<usize>> {
    let own = cx.replicas_per_pipeline()?;
    let all = cx.num_replicas_in_sync;
    let mut sizes: Vec<usize> =
        (0..all).map(|replica| global_batch / all + usize::from(replica < global_batch % all)).collect();
    sizes.rotate_left(cx.input_pipeline_id * own);
    Ok(sizes)
}

impl ReplicaDataset {
    /// The batches in the order in which the replicas take them.
    #[must_use]
    pub fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    /// How many replicas this worker feeds.
    #[must_use]
    pub fn replicas(&self) -> usize {
        self.replicas
    }

    /// Returns how the input is divided; worth logging once.
    #[must_use]
    pub fn sharding(&self) -> &Sharding {
        &self.sharding
    }

    /// Starts a pass.
    ///
    /// # Errors
    /// As [`Dataset::iter`].
    pub fn iter(&self) -> Result<ReplicaIterator> {
        Ok(ReplicaIterator { batches: self.dataset.iter()?, replicas: self.replicas, like: None })
    }

    /// Continues a pass after the steps handed out when the position was taken.
    ///
    /// # Errors
    /// As [`Dataset::iter_from`].
    pub fn iter_from(&self, position: &Position) -> Result<ReplicaIterator> {
        Ok(ReplicaIterator { batches: self.dataset.iter_from(position)?, replicas: self.replicas, like: None })
    }
}

/// The steps of one worker: a batch for each of its replicas.
#[derive(Debug)]
pub struct ReplicaIterator {
    batches: DatasetIter,
    replicas: usize,
    like: Option<Batch>,
}

impl ReplicaIterator {
    /// Returns the position after the steps returned so far.
    #[must_use]
    pub fn position(&self) -> Position {
        self.batches.position()
    }

    /// A batch without rows, for a replica that takes part in a step after this worker's data has ended; `None` before
    /// the first step.
    #[must_use]
    pub fn empty(&self) -> Option<&Batch> {
        self.like.as_ref()
    }

    fn step(&mut self) -> Result<Option<Vec<Batch>>> {
        let mut step = Vec::with_capacity(self.replicas);
        while step.len() < self.replicas {
            let Some(batch) = self.batches.next().transpose()? else { break };
            self.like.get_or_insert_with(|| batch.empty_like());
            step.push(batch);
        }
        // A step in which nobody has a row is no step: trailing batches of size 0 end the pass.
        let Some(like) = &self.like else { return Ok(None) };
        if step.iter().all(Batch::is_empty) && step.len() < self.replicas {
            return Ok(None);
        }
        step.resize(self.replicas, like.clone());
        Ok(Some(step))
    }
}

impl Iterator for ReplicaIterator {
    type Item = Result<Vec<Batch>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}
