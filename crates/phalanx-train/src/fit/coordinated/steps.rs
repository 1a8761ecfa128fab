//! The workers' step functions of a `fit`: one training batch, or one part of an evaluation.

use super::input::SharedInput;
use crate::fit::accumulators::Accumulators;
use crate::fit::compiled::Compiled;
use crate::fit::input_mapping::InputMapping;
use crate::fit::objective::Objective;
use crate::fit::step::StepPlan;
use crate::strategy::seed_of;
use crate::{StepContext, StepFunctions};
use phalanx_base::{Code, Error, Result, Role, TaskId};
use phalanx_data::Batch;
use phalanx_nn::Network;
use phalanx_nn::burn::tensor::{Device, Gradients, Tensor};
use phalanx_nn::model::Mode;
use std::sync::Arc;
use std::time::Duration;

pub(super) const TRAIN: &str = "fit/train";
pub(super) const VALIDATE: &str = "fit/validate";
const DATA: &str = "fit/data";
const HELD_OUT: &str = "fit/held_out";

/// How long a worker without data waits before it reports so, which leaves the scheduled steps to others.
const NOTHING_LEFT: Duration = Duration::from_millis(3);

/// The arguments of a training step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TrainArguments {
    /// The pass over the data that the step belongs to; `None` if the data continues from epoch to epoch.
    pub(super) pass: Option<u64>,
    /// The learning rate; `None` for that of the compiled optimizer.
    pub(super) learning_rate: Option<f32>,
}

impl TrainArguments {
    pub(super) fn arguments(self) -> [f64; 2] {
        [self.pass.map_or(-1.0, |pass| pass as f64), self.learning_rate.map_or(-1.0, f64::from)]
    }

    fn read(arguments: &[f64]) -> Self {
        let at = |place: usize| arguments.get(place).copied().filter(|number| *number >= 0.0);
        Self { pass: at(0).map(|pass| pass as u64), learning_rate: at(1).map(|rate| rate as f32) }
    }
}

/// The result of a training step.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StepReport {
    /// The worker that ran it.
    pub(super) task: TaskId,
    /// Its accumulators; `None` if the worker's share has ended.
    pub(super) words: Option<Vec<f64>>,
}

impl StepReport {
    fn to_words(&self) -> Vec<f64> {
        let role = Role::ALL.iter().position(|role| *role == self.task.role).unwrap_or(0);
        let mut words = vec![f64::from(self.words.is_some()), role as f64, f64::from(self.task.index)];
        words.extend(self.words.iter().flatten());
        words
    }

    pub(super) fn read(words: &[f64]) -> Result<Self> {
        let wrong = || Error::new(Code::BadMessage, "a worker's result is not that of a training step");
        let ([trained, role, index], words) = words.split_first_chunk().ok_or_else(wrong)?;
        let role = Role::ALL.get(*role as usize).copied().ok_or_else(wrong)?;
        Ok(Self { task: TaskId::new(role, *index as u32), words: (*trained > 0.0).then(|| words.to_vec()) })
    }
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
        steps = steps.dataset(DATA, move |cx| data.of(cx)).step(TRAIN, move |cx| kit.train(cx));
    }
    if let Some(data) = held_out {
        steps = steps.dataset(HELD_OUT, move |cx| data.of(cx)).evaluation(VALIDATE, move |cx| kit.validate(cx));
    }
    steps
}

impl StepRunner {
    /// Trains on the next batch of the worker's share.
    fn train<M: Network>(&self, cx: &mut StepContext<'_, M>) -> Result<Vec<f64>> {
        let order = TrainArguments::read(cx.arguments());
        let Some(batch) = Self::next_batch(cx, order)? else {
            if cx.acts_for_another() {
                push_nothing(cx, &self.device)?;
            }
            std::thread::sleep(NOTHING_LEFT);
            return Ok(StepReport { task: cx.task(), words: None }.to_words());
        };
        let plan = StepPlan { mapping: &self.mapping, objectives: &self.objectives, learning: true };
        let mut accumulators = Accumulators::new(&self.objectives);
        // The mean of the pieces' gradients is that of the batch.
        let divisor = batch.rows() as f32 / self.pieces as f32;
        let batch = piece(&batch, cx.input_context().input_pipeline_id, self.pieces);
        if batch.is_empty() {
            push_nothing(cx, &self.device)?;
            return Ok(StepReport { task: cx.task(), words: Some(accumulators.words()) }.to_words());
        }
        let mode = Mode::Training { seed: seed_of(cx.id(), u64::from(cx.task().index + 1)) };
        let step = cx.with_session(|session| {
            session.set_learning_rate(order.learning_rate);
            session.step_with_values(&[], |model, _| {
                let outputs = plan.outputs(model, &batch, &self.device, mode)?;
                let sum = plan.loss(&batch, outputs, &self.device, &mut accumulators)?;
                Ok((sum / divisor, |_: &mut Gradients| Ok(Vec::new())))
            })
        })?;
        step.ok_or_else(|| Error::new(Code::JobFailed, "the job ended before the step did").relayed())?;
        Ok(StepReport { task: cx.task(), words: Some(accumulators.words()) }.to_words())
    }

    /// Returns the next non-empty batch, or `None` at the end of the pass.
    fn next_batch<M: Network>(cx: &mut StepContext<'_, M>, order: TrainArguments) -> Result<Option<Batch>> {
        if let Some(pass) = order.pass
            && cx.begin_pass(DATA, pass)? > pass
        {
            // A restarted chief may ask for a pass that is already done.
            return Ok(None);
        }
        loop {
            match cx.try_next(DATA)? {
                Some(batch) if batch.is_empty() => {}
                batch => return Ok(batch),
            }
        }
    }

    /// Evaluates on one part of the data.
    fn validate<M: Network>(&self, cx: &mut StepContext<'_, M>) -> Result<Vec<f64>> {
        let &[part, of] = cx.arguments() else {
            return Err(Error::new(Code::BadMessage, "an evaluation step has no part number"));
        };
        let plan = StepPlan { mapping: &self.mapping, objectives: &self.objectives, learning: false };
        let mut accumulators = Accumulators::new(&self.objectives);
        let batches = cx.part(HELD_OUT, part as usize, of as usize)?;
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

/// Completes a lost worker's unfinished update with zero gradients, so that every server has it.
fn push_nothing<M: Network>(cx: &mut StepContext<'_, M>, device: &Device) -> Result<()> {
    let of_nothing = |_: &mut Gradients| Ok(Vec::new());
    let zero = Tensor::<1>::zeros([1], device).require_grad();
    cx.with_session(|session| session.step_with_values(&[], |_, _| Ok((zero, of_nothing)))).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_and_answers_cross_the_wire_as_numbers() {
        for (pass, learning_rate) in [(None, None), (Some(0), Some(0.3)), (Some(7), None), (None, Some(0.0))] {
            let order = TrainArguments { pass, learning_rate };
            assert_eq!(TrainArguments::read(&order.arguments()), order);
        }
        for words in [None, Some(vec![]), Some(vec![1.5, -2.0])] {
            let told = StepReport { task: TaskId::new(Role::Worker, 3), words };
            assert_eq!(StepReport::read(&told.to_words()).unwrap(), told);
        }
        assert!(StepReport::read(&[1.0]).is_err() && StepReport::read(&[1.0, 99.0, 0.0]).is_err());
    }
}
