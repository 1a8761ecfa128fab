//! Input for the replicas of this process, step by step.

use super::{PerReplica, Strategy};
use phalanx_base::Result;
use phalanx_collective::Reduce;
use phalanx_data::{
    Batch, Dataset, InputContext, ReplicaDataset, ReplicaIterator, datasets_from_function, distribute_dataset,
};

/// A dataset divided among the replicas of a strategy.
///
/// ```
/// use phalanx_data::Dataset;
/// use phalanx_train::Strategy;
/// let strategy = Strategy::mirrored(["cpu:0", "cpu:1"])?;
/// let data = strategy.distribute_dataset(&Dataset::range(0, 7, 1).batch(3))?;
/// let mut rows = Vec::new();
/// for step in data.steps()? {
///     rows.push(step?.local_results().map(|batch| batch.rows()).collect::<Vec<_>>());
/// }
/// assert_eq!(rows, [vec![2, 1], vec![2, 1], vec![1]]);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct DistributedDataset {
    strategy: Strategy,
    input: ReplicaDataset,
    /// Rows of a full step over all replicas, if known.
    global_batch: Option<usize>,
}

impl Strategy {
    /// Distributes a dataset: its batches are global ones, which are split over all replicas.
    ///
    /// # Errors
    /// Fails if the dataset is not batched or cannot be sharded.
    pub fn distribute_dataset(&self, dataset: &Dataset) -> Result<DistributedDataset> {
        let cx = self.input_context();
        if let Some(servers) = self.servers() {
            let input = if self.num_replicas_in_sync() > 1 {
                distribute_dataset(dataset, &cx)?
            } else {
                // Every step is one trainer's: it has a batch of its own share.
                let share = InputContext { num_replicas_in_sync: cx.num_input_pipelines, ..cx };
                datasets_from_function(&InputContext::default(), |_| Ok(dataset.shard_for(&share)?.0))?
            };
            servers.server().in_scope(|| tracing::info!("{}", input.sharding()));
            return Ok(DistributedDataset { strategy: self.clone(), input, global_batch: dataset.batch_size() });
        }
        let input = distribute_dataset(dataset, &cx)?;
        if let Some(workers) = self.workers() {
            workers.in_scope(|| tracing::info!("{}", input.sharding()));
        }
        Ok(DistributedDataset { strategy: self.clone(), input, global_batch: dataset.batch_size() })
    }

    /// Distributes the dataset that `function` creates for this process: it shards the rows itself, and its batches are
    /// those of one replica.
    ///
    /// # Errors
    /// Fails if the function does, or its dataset is not batched.
    pub fn datasets_from_function(
        &self,
        function: impl FnOnce(&InputContext) -> Result<Dataset>,
    ) -> Result<DistributedDataset> {
        let cx = self.input_context();
        let input = match self.servers() {
            // One replica for each trainer, whether or not their steps are in sync.
            Some(_) => datasets_from_function(&InputContext::default(), |_| function(&cx))?,
            None => datasets_from_function(&cx, function)?,
        };
        let global_batch = input.dataset().batch_size().map(|batch| batch * self.num_replicas_in_sync());
        Ok(DistributedDataset { strategy: self.clone(), input, global_batch })
    }
}

impl DistributedDataset {
    /// Starts a pass. Several workers synchronise before every step, and the pass ends when the data of all has ended; a
    /// worker without data gets a step without batches. With parameter servers a trainer's pass ends with its own share, and a
    /// parameter server has none.
    ///
    /// # Errors
    /// Fails if the input cannot be opened.
    pub fn steps(&self) -> Result<DistributedSteps> {
        Ok(DistributedSteps { strategy: self.strategy.clone(), batches: self.input.iter()?, ended: false })
    }

    pub(crate) fn input(&self) -> &ReplicaDataset {
        &self.input
    }

    pub(crate) fn global_batch(&self) -> Option<usize> {
        self.global_batch
    }
}

/// An iterator over the steps of one pass, made by [`DistributedDataset::steps`].
pub struct DistributedSteps {
    strategy: Strategy,
    batches: ReplicaIterator,
    ended: bool,
}

impl DistributedSteps {
    fn step(&mut self) -> Result<Option<PerReplica<Batch>>> {
        if self.ended || self.strategy.servers().is_some_and(|servers| !servers.reads()) {
            return Ok(None);
        }
        let own = self.batches.next().transpose()?;
        let mut with_data = [f32::from(u8::from(own.is_some()))];
        if let Some(workers) = self.strategy.workers() {
            workers.group().all_reduce(&mut with_data, Reduce::Sum)?;
        }
        self.ended = with_data[0] == 0.0;
        Ok((!self.ended).then(|| with_rows(own)))
    }
}

impl Iterator for DistributedSteps {
    type Item = Result<PerReplica<Batch>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}

/// Returns the non-empty batches of a step.
pub(crate) fn with_rows(step: Option<Vec<Batch>>) -> PerReplica<Batch> {
    let batches = step.into_iter().flatten().enumerate();
    PerReplica::new(batches.filter(|(_, batch)| !batch.is_empty()))
}
