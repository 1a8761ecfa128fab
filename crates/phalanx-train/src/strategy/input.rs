//! Input for the replicas of this process, step by step.

use super::{PerReplica, Strategy};
use phalanx_base::Result;
use phalanx_collective::Reduce;
use phalanx_data::{
    Batch, Dataset, Distributed, DistributedIter, InputContext, datasets_from_function, distribute_dataset,
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
    input: Distributed,
    /// Rows of a whole step over all replicas, where that is known.
    global_batch: Option<usize>,
}

impl Strategy {
    /// Divides a dataset: its batch is the global one, split over all replicas, and every row goes to one of them.
    ///
    /// # Errors
    /// When the dataset is not batched or cannot be shared.
    pub fn distribute_dataset(&self, dataset: &Dataset) -> Result<DistributedDataset> {
        let input = distribute_dataset(dataset, &self.input_context())?;
        if let Some(workers) = self.workers() {
            workers.say(&input.sharding().to_string());
        }
        Ok(DistributedDataset { strategy: self.clone(), input, global_batch: dataset.batch_size() })
    }

    /// Takes what a function makes for this process: batches for each replica, shared by the function itself.
    ///
    /// # Errors
    /// What the function returns, and a dataset that is not batched.
    pub fn datasets_from_function(
        &self,
        function: impl FnOnce(&InputContext) -> Result<Dataset>,
    ) -> Result<DistributedDataset> {
        let input = datasets_from_function(&self.input_context(), function)?;
        let global_batch = input.dataset().batch_size().map(|batch| batch * self.num_replicas_in_sync());
        Ok(DistributedDataset { strategy: self.clone(), input, global_batch })
    }
}

impl DistributedDataset {
    /// Starts a pass. With several workers it ends for all when the data of all has ended: before every step they tell
    /// each other, and one without data gets a step without batches.
    ///
    /// # Errors
    /// When the input cannot be opened.
    pub fn steps(&self) -> Result<DistributedSteps> {
        Ok(DistributedSteps { strategy: self.strategy.clone(), batches: self.input.iter()?, ended: false })
    }

    pub(crate) fn input(&self) -> &Distributed {
        &self.input
    }

    pub(crate) fn global_batch(&self) -> Option<usize> {
        self.global_batch
    }
}

/// The steps of one pass; made by [`DistributedDataset::steps`].
pub struct DistributedSteps {
    strategy: Strategy,
    batches: DistributedIter,
    ended: bool,
}

impl DistributedSteps {
    fn step(&mut self) -> Result<Option<PerReplica<Batch>>> {
        if self.ended {
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

/// The batches of a step that have rows.
pub(crate) fn with_rows(step: Option<Vec<Batch>>) -> PerReplica<Batch> {
    let batches = step.into_iter().flatten().enumerate();
    PerReplica::new(batches.filter(|(_, batch)| !batch.is_empty()))
}
