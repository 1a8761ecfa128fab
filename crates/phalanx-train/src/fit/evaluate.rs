//! `evaluate`: losses and metrics on data that is not learned from.

use super::data::Batched;
use super::progress::Progress;
use super::step::Plan;
use super::tally::Tally;
use super::{Compiled, Data, Fit, Logs};
use crate::strategy::{DistributedDataset, with_rows};
use phalanx_base::{Code, Error, Result};
use phalanx_nn::Network;
use phalanx_nn::model::Mode;
use std::io::stdout;

/// An error for data without a row.
pub(super) fn nothing(what_for: &str) -> Error {
    Error::new(Code::DataMissing, format!("there is nothing to {what_for}"))
        .because("the data has no row, or no step was asked for")
        .help("look at what filter, take and shard leave of it, and at steps_per_epoch and validation_steps")
}

/// What an evaluation is made on.
pub(super) struct Validation {
    input: DistributedDataset,
    steps: Option<u64>,
    target: Option<u64>,
}

impl<M: Network> Compiled<M> {
    /// The loss and the metrics on `data`, over all replicas and workers; every example counts once. Of the settings
    /// `batch_size`, `validation_steps`, `sample_weight` and `verbose` matter.
    ///
    /// # Errors
    /// When the data cannot be read or does not fit the model, or a worker is lost.
    pub fn evaluate(&mut self, data: impl Into<Data>, fit: Fit) -> Result<Logs> {
        let data = data.into();
        self.telling_others(|compiled| {
            compiled.feed.sample_weight.clone_from(&fit.sample_weight);
            let batched = data.batched(fit.batch_size, None)?;
            let validation = compiled.validation(batched, fit.validation_steps)?;
            compiled.resolve(&validation.input)?;
            let mut progress = Progress::new(stdout(), compiled.shown(fit.verbose), validation.target);
            let (tally, steps) = compiled.pass(&validation, |steps, tally, aims| {
                progress.update(steps, &tally.logs(aims, "").pairs());
            })?;
            let logs = tally.logs(&compiled.aims, "");
            progress.finish(steps, &logs.pairs());
            Ok(logs)
        })
    }

    pub(super) fn validation(&self, batched: Batched, steps: Option<u64>) -> Result<Validation> {
        let input = self.strategy().distribute_dataset(&batched.dataset)?;
        Ok(Validation { input, steps, target: steps.or(batched.steps) })
    }

    /// The numbers of a validation, each name behind `val_`.
    pub(super) fn validate(&self, validation: &Validation) -> Result<Logs> {
        Ok(self.pass(validation, |_, _, _| {})?.0.logs(&self.aims, "val_"))
    }

    /// Goes through the data once, each replica through its own; then the tallies of all are added up.
    fn pass(
        &self,
        validation: &Validation,
        mut seen: impl FnMut(u64, &Tally, &[super::aim::Aim]),
    ) -> Result<(Tally, u64)> {
        let plan = Plan { feed: &self.feed, aims: &self.aims, learning: false };
        let mut tallies: Vec<Tally> = (0..self.strategy().local_replicas()).map(|_| Tally::new(&self.aims)).collect();
        let mut steps = 0;
        for step in validation.input.input().iter()? {
            if validation.steps.is_some_and(|wanted| steps >= wanted) {
                break;
            }
            let batches = with_rows(Some(step?)).with(&mut tallies);
            self.model.compute(batches, |replica, (batch, tally)| {
                let model = replica.model().clone().no_grad();
                let outputs = plan.outputs(&model, &batch, replica.device(), Mode::Inference)?;
                plan.loss(&batch, outputs, replica.device(), tally).map(drop)
            })?;
            steps += 1;
            seen(steps, &tallies[0], &self.aims);
        }
        let all = self.together(&tallies)?;
        if all.is_empty() { Err(nothing("evaluate on")) } else { Ok((all, steps)) }
    }

    /// One tally of all replicas of all workers.
    pub(super) fn together(&self, tallies: &[Tally]) -> Result<Tally> {
        let mut all = Tally::sum(&self.aims, tallies)?;
        let Some(workers) = self.strategy().workers() else { return Ok(all) };
        let words: Vec<u8> = all.words().iter().flat_map(|word| word.to_le_bytes()).collect();
        // Workers may have more or less to evaluate: those who are done wait.
        let everyone = workers.patiently(|group| group.all_gather(&words))?;
        all.reset();
        for bytes in everyone {
            let words: Vec<f64> = bytes.as_chunks::<8>().0.iter().map(|eight| f64::from_le_bytes(*eight)).collect();
            all.merge(&words)?;
        }
        Ok(all)
    }
}
