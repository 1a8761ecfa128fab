//! How data is divided among the workers of a job.

use crate::fit::{Data, DatasetCreator, Fit};
use phalanx_base::Result;
use phalanx_data::{AutoShardPolicy, Dataset, InputContext, Options, distribute_dataset};

/// Data of which every worker reads a share.
#[derive(Clone, Debug)]
pub(super) enum SharedInput {
    /// Sharded here: every row goes to one worker.
    Divided {
        dataset: Dataset,
        /// The rows and the batch size of arrays.
        arrays: Option<(usize, usize)>,
        /// The steps that make an update; each is one worker's piece of a batch.
        round: usize,
    },
    /// Every worker creates its own.
    Made(DatasetCreator),
}

impl SharedInput {
    /// Prepares training data.
    pub(super) fn training(data: Data, fit: &Fit, round: usize) -> Result<Self> {
        let rows = data.rows();
        if let (Some(creator), None) = (data.creator(), fit.batch_size) {
            return Ok(Self::Made(creator.clone()));
        }
        let batched = data.batched(fit.batch_size, (!fit.in_order).then_some(fit.seed))?;
        let batched = if fit.steps_per_epoch.is_some() { batched.repeated() } else { batched };
        let size = fit.batch_size.unwrap_or(32).max(1);
        Ok(Self::Divided { dataset: batched.dataset, arrays: rows.map(|rows| (rows, size)), round })
    }

    /// Prepares evaluation data: the first `steps` batches, or everything. Every example is in exactly one part,
    /// whatever the sharding policy of the training.
    pub(super) fn evaluation(data: Data, batch_size: Option<usize>, steps: Option<u64>) -> Result<Self> {
        // `batch_size` is for arrays: the training data may be arrays while these are a dataset.
        let size = batch_size.filter(|_| data.is_rows());
        if let (Some(creator), None) = (data.creator(), steps) {
            return Ok(Self::Made(creator.clone()));
        }
        let batched = data.batched(size, None)?;
        let dataset = match steps {
            Some(steps) => batched.dataset.take(steps),
            None => batched.dataset,
        };
        let divided = Options { auto_shard_policy: Some(AutoShardPolicy::Data), ..Options::default() };
        let dataset = match dataset.options().auto_shard_policy {
            Some(AutoShardPolicy::Off | AutoShardPolicy::File) => dataset.with_options(divided),
            _ => dataset,
        };
        Ok(Self::Divided { dataset, arrays: None, round: 1 })
    }

    /// Returns the share of one reader.
    pub(super) fn of(&self, cx: &InputContext) -> Result<Dataset> {
        match self {
            Self::Divided { dataset, round, .. } if *round > 1 => match dataset.in_one_order(cx)? {
                Some((whole, _)) => Ok(whole),
                None => Ok(distribute_dataset(dataset, cx)?.dataset().clone()),
            },
            Self::Divided { dataset, .. } => Ok(dataset.shard_for(cx)?.0),
            Self::Made(creator) => creator.create(cx),
        }
    }

    /// Returns into how many pieces a batch of [`Self::of`] is divided, each for one worker: 1 where the batch is that of
    /// one worker.
    pub(super) fn pieces(&self, cx: &InputContext) -> Result<usize> {
        match self {
            Self::Divided { dataset, round, .. } if *round > 1 && dataset.in_one_order(cx)?.is_some() => Ok(*round),
            _ => Ok(1),
        }
    }

    /// Returns the number of updates in a pass, if it is known.
    pub(super) fn batches(&self, workers: usize) -> Option<u64> {
        let Self::Divided { arrays: Some((rows, size)), round, .. } = self else { return None };
        if *round > 1 {
            return Some(rows.div_ceil((*size).max(1)) as u64);
        }
        let share = |worker: usize| rows.saturating_sub(worker).div_ceil(workers.max(1));
        Some((0..workers).map(|worker| share(worker).div_ceil(*size) as u64).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_data::Column;

    #[test]
    fn the_batches_of_all_shares_are_known_for_arrays() {
        for (rows, size, workers) in [(10, 3, 1), (10, 3, 2), (7, 2, 3), (2, 4, 3), (33, 8, 4)] {
            let numbers = || Column::f32((0..rows).map(|i| i as f32).collect());
            let fit = Fit::default().batch_size(size);
            let shared = SharedInput::training((numbers(), numbers()).into(), &fit, 1).unwrap();
            let of = |worker| {
                let cx = InputContext {
                    num_input_pipelines: workers,
                    input_pipeline_id: worker,
                    num_replicas_in_sync: workers,
                };
                shared.of(&cx).unwrap().iter().unwrap().map(|batch| batch.unwrap().rows()).collect::<Vec<_>>()
            };
            let shares: Vec<usize> = (0..workers).flat_map(of).collect();
            assert_eq!(shares.iter().sum::<usize>(), rows);
            assert_eq!(shared.batches(workers), Some(shares.len() as u64), "{rows} rows, {workers} workers");
        }
    }

    #[test]
    fn a_batch_size_beside_a_function_is_refused() {
        let data: Data = DatasetCreator::new(|_| Ok(Dataset::range(0, 3, 1).batch(2))).into();
        assert!(SharedInput::training(data.clone(), &Fit::default().batch_size(3), 1).is_err());
        assert!(SharedInput::training(data, &Fit::default(), 1).unwrap().batches(2).is_none());
    }
}
