//! `fit` and `evaluate` with variables on parameter servers, steps on workers, and a chief that schedules them.
//!
//! | file | contents |
//! | --- | --- |
//! | `input` | dividing the data among workers |
//! | `steps` | the workers' step functions: a training batch, a part of an evaluation |
//! | `worker_progress` | which workers have finished a pass |
//! | `scheduled` | the chief's part: it schedules steps and takes their reports |
//! | `trained_state` | the model as callbacks see it |

mod input;
mod scheduled;
mod steps;
mod trained_state;
mod worker_progress;

use super::looping::FitLoop;
use super::{Compiled, Data, Fit, History, Logs};
use crate::coordinator::ended_early;
use crate::{Coordinator, StepFunctions};
use input::SharedInput;
use phalanx_base::{Code, Error, Result};
use phalanx_data::InputContext;
use phalanx_nn::Network;
use scheduled::{RunSettings, Scheduled};
use serde::Serialize;
use serde::de::DeserializeOwned;
pub(crate) use worker_progress::WorkerProgress;

impl<M: Network> Compiled<M> {
    /// `fit` with a coordinator: parameter servers serve, workers compute steps, and the chief schedules them, shows
    /// progress and calls the callbacks. Every task returns the same history.
    pub(super) fn fit_on_servers(&mut self, data: Data, mut fit: Fit) -> Result<History> {
        let servers = self.strategy().servers().ok_or_else(no_servers)?;
        let (workers, round) = (servers.workers(), servers.round());
        let prepared = self.prepare_fit(data, &mut fit, workers, round);
        let (steps, settings) = self.or_leave(prepared)?;
        self.call(steps, |compiled, coordinator| {
            let known = settings.batches;
            let shown = compiled.shown(fit.verbose);
            FitLoop::new(Scheduled::new(compiled, coordinator, settings)?, fit, shown, known).run()
        })
    }

    /// `evaluate` with a coordinator: free workers take parts of the data. Every task returns the same logs.
    pub(super) fn evaluate_on_servers(&mut self, data: Data, fit: Fit) -> Result<Logs> {
        let prepared = self.prepare_evaluation(data, &fit);
        let steps = self.or_leave(prepared)?;
        let settings = RunSettings { steps_per_epoch: None, batches: None, validated: true, round: 1 };
        self.call(steps, |compiled, coordinator| {
            let sums = Scheduled::new(compiled, coordinator, settings)?.evaluate()?;
            Ok(sums.logs(&compiled.objectives, ""))
        })
    }

    /// Returns the steps of a `fit`, and its settings.
    fn prepare_fit(
        &mut self,
        data: Data,
        fit: &mut Fit,
        workers: usize,
        round: u64,
    ) -> Result<(StepFunctions<M>, RunSettings)> {
        let (data, held_out) = self.take_data(data, fit)?;
        let training = SharedInput::training(data, fit, usize::try_from(round).unwrap_or(1))?;
        let held_out =
            held_out.map(|data| SharedInput::evaluation(data, fit.batch_size, fit.validation_steps)).transpose()?;
        self.resolve_on(&training)?;
        let cx =
            InputContext { num_input_pipelines: workers, input_pipeline_id: 0, num_replicas_in_sync: workers.max(1) };
        let settings = RunSettings {
            steps_per_epoch: fit.steps_per_epoch,
            batches: training.batches(workers).filter(|_| fit.steps_per_epoch.is_none()),
            validated: held_out.is_some(),
            round,
        };
        let pieces = training.pieces(&cx)?;
        Ok((steps::steps(self, Some(training), held_out, pieces), settings))
    }

    fn prepare_evaluation(&mut self, data: Data, fit: &Fit) -> Result<StepFunctions<M>> {
        self.mapping.sample_weight.clone_from(&fit.sample_weight);
        let held_out = SharedInput::evaluation(data, fit.batch_size, fit.validation_steps)?;
        self.resolve_on(&held_out)?;
        Ok(steps::steps(self, None, Some(held_out), 1))
    }

    /// Creates the metrics given by name, with a row of the data if the model does not know the widths of its outputs.
    fn resolve_on(&mut self, data: &SharedInput) -> Result<()> {
        self.resolve_with(|| data.of(&InputContext::default())?.iter()?.next().transpose())
    }

    /// Takes part in a call of the job, and takes the values at its end.
    fn call<T: Serialize + DeserializeOwned>(
        &mut self,
        steps: StepFunctions<M>,
        coordinate: impl FnOnce(&mut Self, &mut Coordinator<M>) -> Result<T>,
    ) -> Result<T> {
        crate::logging::init();
        let model = self.model.take_changes();
        let mut on_servers = self.model.on_servers.take().ok_or_else(no_servers)?;
        let done = on_servers.call(model, steps, |coordinator| coordinate(self, coordinator));
        let updates = on_servers.global_step();
        self.model.on_servers = Some(on_servers);
        let (outcome, model) = done?.ok_or_else(ended_early)?;
        self.model.take_result(model);
        if let (Some(update), Some(updates)) = (&mut self.model.update, updates) {
            update.iterations = updates;
        }
        Ok(outcome)
    }

    /// Ends the job with an error of this task.
    fn or_leave<T>(&self, prepared: Result<T>) -> Result<T> {
        if let (Err(error), Some(servers)) = (&prepared, self.strategy().servers()) {
            servers.server().leave(Some(error));
        }
        prepared
    }
}

fn no_servers() -> Error {
    Error::new(Code::Internal, "the model has no parameter servers")
}
