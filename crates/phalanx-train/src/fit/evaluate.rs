//! `evaluate`: losses and metrics without training.

use super::accumulators::Accumulators;
use super::data::BatchedData;
use super::progress::Progress;
use super::step::StepPlan;
use super::{Compiled, Data, Fit, Logs};
use crate::strategy::{DistributedDataset, with_rows};
use phalanx_base::{Code, Error, Result};
use phalanx_nn::Network;
use phalanx_nn::model::Mode;
use std::io::stdout;

/// An error for data without rows.
pub(super) fn nothing(what_for: &str) -> Error {
    Error::new(Code::DataMissing, format!("there is nothing to {what_for}"))
        .because("the data has no rows, or 0 steps were requested")
        .help("check what filter, take and shard leave of the data, and steps_per_epoch and validation_steps")
}

/// The data of an evaluation.
pub(super) struct ValidationData {
    input: DistributedDataset,
    steps: Option<u64>,
    target: Option<u64>,
}

impl<M: Network> Compiled<M> {
    /// Returns the loss and metrics on `data` over all replicas and workers; every example counts once. Uses the settings
    /// `batch_size`, `validation_steps`, `sample_weight` and `verbose`. Under parameter servers, workers evaluate parts of
    /// the data on the values that the servers hold, and every task returns the same logs.
    ///
    /// # Errors
    /// Fails if the data cannot be read or does not fit the model, or a worker is lost.
    pub fn evaluate(&mut self, data: impl Into<Data>, fit: Fit) -> Result<Logs> {
        let data = data.into();
        if self.strategy().servers().is_some() {
            return self.evaluate_on_servers(data, fit);
        }
        self.telling_others(|compiled| {
            compiled.mapping.sample_weight.clone_from(&fit.sample_weight);
            let batched = data.batched(fit.batch_size, None)?;
            let validation = compiled.validation(batched, fit.validation_steps)?;
            compiled.resolve(&validation.input)?;
            let mut progress = Progress::new(stdout(), compiled.shown(fit.verbose), validation.target);
            let (accumulators, steps) = compiled.pass(&validation, |steps, accumulators, objectives| {
                progress.update(steps, &accumulators.logs(objectives, "").pairs());
            })?;
            let logs = accumulators.logs(&compiled.objectives, "");
            progress.finish(steps, &logs.pairs());
            Ok(logs)
        })
    }

    pub(super) fn validation(&self, batched: BatchedData, steps: Option<u64>) -> Result<ValidationData> {
        let input = self.strategy().distribute_dataset(&batched.dataset)?;
        Ok(ValidationData { input, steps, target: steps.or(batched.steps) })
    }

    /// Returns the sums of a validation.
    pub(super) fn validate(&self, validation: &ValidationData) -> Result<Accumulators> {
        Ok(self.pass(validation, |_, _, _| {})?.0)
    }

    /// Evaluates one pass over the data, and sums the accumulators of all replicas and workers.
    fn pass(
        &self,
        validation: &ValidationData,
        mut seen: impl FnMut(u64, &Accumulators, &[super::objective::Objective]),
    ) -> Result<(Accumulators, u64)> {
        let plan = StepPlan { mapping: &self.mapping, objectives: &self.objectives, learning: false };
        let mut accumulators: Vec<Accumulators> =
            (0..self.strategy().local_replicas()).map(|_| Accumulators::new(&self.objectives)).collect();
        let mut steps = 0;
        for step in validation.input.input().iter()? {
            if validation.steps.is_some_and(|wanted| steps >= wanted) {
                break;
            }
            self.check_interrupted()?;
            let batches = with_rows(Some(step?)).with(&mut accumulators);
            self.model.compute(batches, |replica, (batch, accumulators)| {
                let model = replica.model().clone().no_grad();
                let outputs = plan.outputs(&model, &batch, replica.device(), Mode::Inference)?;
                plan.loss(&batch, outputs, replica.device(), accumulators).map(drop)
            })?;
            steps += 1;
            seen(steps, &accumulators[0], &self.objectives);
        }
        let all = self.together(&accumulators)?;
        if all.is_empty() { Err(nothing("evaluate on")) } else { Ok((all, steps)) }
    }

    /// Returns the interruption of a process that computes alone. With other workers the pass ends first, since they wait for its
    /// part.
    pub(super) fn check_interrupted(&self) -> Result<()> {
        match self.strategy().workers() {
            None => self.strategy().interrupted().map_or(Ok(()), Err),
            Some(_) => Ok(()),
        }
    }

    /// Sums the accumulators of all replicas and workers.
    pub(super) fn together(&self, accumulators: &[Accumulators]) -> Result<Accumulators> {
        let mut all = Accumulators::sum(&self.objectives, accumulators)?;
        let Some(workers) = self.strategy().workers() else { return Ok(all) };
        let words: Vec<u8> = all.words().iter().flat_map(|word| word.to_le_bytes()).collect();
        // Some workers may have more to evaluate than others.
        let everyone = workers.patiently(|group| group.all_gather(&words))?;
        all.reset();
        for bytes in everyone {
            let words: Vec<f64> = bytes.as_chunks::<8>().0.iter().map(|eight| f64::from_le_bytes(*eight)).collect();
            all.merge(&words)?;
        }
        Ok(all)
    }
}
