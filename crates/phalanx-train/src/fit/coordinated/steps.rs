//! The workers' step functions of a `fit`: one training batch, or one part of an evaluation.

use super::input::SharedInput;
use crate::fit::accumulators::Accumulators;
use crate::fit::compiled::Compiled;
use crate::fit::input_mapping::InputMapping;
use crate::fit::objective::Objective;
use crate::fit::step::StepPlan;
use crate::strategy::seed_of;
use crate::tables::PrefetchedRows;
use crate::{DatasetHandle, DatasetPart, RowValues, StepContext, StepFunctions, StepGradients, TableId};
use phalanx_base::{Code, Error, Result};
use phalanx_data::Batch;
use phalanx_nn::burn::tensor::{Device, Gradients, Tensor};
use phalanx_nn::model::Mode;
use phalanx_nn::{HostBuffer, Network, Parameter, ParameterRegistry};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

pub(super) const TRAIN: &str = "fit/train";
pub(super) const VALIDATE: &str = "fit/validate";

/// How long a worker without data waits before it reports so, which leaves the scheduled steps to others.
const NOTHING_LEFT: Duration = Duration::from_millis(3);

/// The arguments of a training step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct TrainArguments {
    /// The pass over the data that the step belongs to; `None` if the data continues from epoch to epoch.
    pub(super) pass: Option<u64>,
    /// The learning rate; `None` for that of the compiled optimizer.
    pub(super) learning_rate: Option<f32>,
    /// Whether the norm of the gradients is wanted.
    pub(super) measured: bool,
}

/// The result of a training step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StepReport {
    /// The worker that ran it, as in `worker/3`.
    pub(super) task: String,
    /// Its accumulators; `None` if the worker's share has ended.
    pub(super) words: Option<Vec<f64>>,
    /// The norm of the worker's gradients, where it was wanted.
    pub(super) norm: Option<f32>,
}

/// What a worker needs for its steps.
struct StepRunner {
    mapping: InputMapping,
    objectives: Vec<Objective>,
    device: Device,
    /// Into how many pieces a batch is divided, each for one worker.
    pieces: usize,
}

/// Returns the steps of a `fit` with this training and evaluation data.
pub(super) fn steps<M: Network>(
    compiled: &Compiled<M>,
    training: Option<SharedInput>,
    held_out: Option<SharedInput>,
    pieces: usize,
) -> StepFunctions<M> {
    let objectives = compiled.objectives.iter().map(Objective::copy).collect();
    let kit = Arc::new(StepRunner {
        mapping: compiled.mapping.clone(),
        objectives,
        device: compiled.strategy().home().clone(),
        pieces,
    });
    let mut steps = StepFunctions::new();
    if let Some(data) = training {
        let kit = Arc::clone(&kit);
        let data = steps.dataset(move |cx| data.of(cx));
        steps.register_as(TRAIN, move |cx, order| kit.train(cx, &data, order));
    }
    if let Some(data) = held_out {
        let data = steps.dataset(move |cx| data.of(cx));
        steps.evaluation_as(VALIDATE, move |cx, part| kit.validate(cx, &data, part));
    }
    steps
}

impl StepRunner {
    /// Trains on the next batch of the worker's share.
    fn train<M: Network>(
        &self,
        cx: &mut StepContext<'_, M>,
        data: &DatasetHandle,
        order: TrainArguments,
    ) -> Result<StepReport> {
        let task = cx.task().to_string();
        let Some(batch) = Self::next_batch(cx, data, order)? else {
            if cx.acts_for_another() {
                push_nothing(cx, &self.device)?;
            }
            std::thread::sleep(NOTHING_LEFT);
            return Ok(StepReport { task, words: None, norm: None });
        };
        let plan = StepPlan { mapping: &self.mapping, objectives: &self.objectives, learning: true };
        let mut accumulators = Accumulators::new(&self.objectives);
        // The mean of the pieces' gradients is that of the batch.
        let divisor = batch.rows() as f32 / self.pieces as f32;
        let batch = piece(&batch, cx.input_context().input_pipeline_id, self.pieces);
        if batch.is_empty() {
            push_zeros(cx)?;
            return Ok(StepReport { task, words: Some(accumulators.words()), norm: None });
        }
        let mode = Mode::Training { seed: seed_of(cx.id(), u64::from(cx.task().index + 1)) };
        let inputs = self.mapping.inputs(&batch, &self.device)?;
        let (step, norm) = cx.with_session(|session| {
            session.set_learning_rate(order.learning_rate);
            if order.measured {
                session.norm_request().want();
            }
            let ids = session.model()?.table_ids(&inputs)?;
            let servers = if ids.is_empty() { None } else { Some(session.rows()?) };
            let ids: Vec<(TableId, &[i64])> = (0..).map(TableId).zip(ids.iter().map(Vec::as_slice)).collect();
            let step = session.step_with_values(&ids, |model, rows| {
                let rows = Arc::new(PrefetchedRows::new(rows, &self.device));
                if let Some(servers) = &servers {
                    servers.give(Some(Arc::clone(&rows) as _));
                }
                let outputs = plan.outputs_for(model, inputs, mode);
                if let Some(servers) = &servers {
                    servers.give(None);
                }
                let sum = plan.loss(&batch, outputs?, &self.device, &mut accumulators)?;
                Ok((sum / divisor, move |gradients: &mut Gradients| rows.gradients(gradients)))
            })?;
            Ok((step, session.norm_request().take()))
        })?;
        step.ok_or_else(|| Error::new(Code::JobFailed, "the job ended before the step did").relayed())?;
        Ok(StepReport { task, words: Some(accumulators.words()), norm })
    }

    /// Returns the next non-empty batch, or `None` at the end of the pass.
    fn next_batch<M: Network>(
        cx: &mut StepContext<'_, M>,
        data: &DatasetHandle,
        order: TrainArguments,
    ) -> Result<Option<Batch>> {
        if let Some(pass) = order.pass
            && cx.begin_pass(data, pass)? > pass
        {
            // A restarted chief may ask for a pass that is already done.
            return Ok(None);
        }
        loop {
            match cx.try_next(data)? {
                Some(batch) if batch.is_empty() => {}
                batch => return Ok(batch),
            }
        }
    }

    /// Evaluates on one part of the data.
    fn validate<M: Network>(
        &self,
        cx: &mut StepContext<'_, M>,
        data: &DatasetHandle,
        part: DatasetPart,
    ) -> Result<Vec<f64>> {
        let plan = StepPlan { mapping: &self.mapping, objectives: &self.objectives, learning: false };
        let mut accumulators = Accumulators::new(&self.objectives);
        let batches = cx.part(data, part)?;
        let model = cx.newest_model()?.clone().no_grad();
        for batch in batches {
            let batch = batch?;
            if batch.is_empty() {
                continue;
            }
            let outputs = plan.outputs(&model, &batch, &self.device, Mode::Inference)?;
            plan.loss(&batch, outputs, &self.device, &mut accumulators)?;
        }
        Ok(accumulators.words())
    }
}

/// Returns piece `index` of `of` of a batch; the first pieces have one row more where the rows do not divide evenly.
fn piece(batch: &Batch, index: usize, of: usize) -> Batch {
    let (least, more) = (batch.rows() / of.max(1), batch.rows() % of.max(1));
    let index = index % of.max(1);
    let start = index * least + index.min(more);
    batch.slice(start..start + least + usize::from(index < more))
}

/// Takes part in a round without a row of the batch: the mean counts this worker, too.
fn push_zeros<M: Network>(cx: &mut StepContext<'_, M>) -> Result<()> {
    let zeros = |registry: &ParameterRegistry| {
        let zero = |parameter: &Parameter| Some(HostBuffer::zeros(parameter.shape.elements()));
        registry.parameters().iter().map(zero).collect()
    };
    let step = |_: &M, registry: &ParameterRegistry, _: Vec<RowValues>| {
        Ok(StepGradients { dense: zeros(registry), ..StepGradients::default() })
    };
    cx.with_session(|session| session.step_with_gradients(&[], step)).map(drop)
}

/// Completes a lost worker's unfinished update with zero gradients, so that every server has it.
fn push_nothing<M: Network>(cx: &mut StepContext<'_, M>, device: &Device) -> Result<()> {
    let of_nothing = |_: &mut Gradients| Ok(Vec::new());
    let zero = Tensor::<1>::zeros([1], device).require_grad();
    cx.with_session(|session| session.step_with_values(&[], |_, _| Ok((zero, of_nothing)))).map(drop)
}
