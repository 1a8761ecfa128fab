//! What workers do for a `fit`: one batch of training, or one part of an evaluation.

use super::input::Shared;
use crate::fit::aim::Aim;
use crate::fit::compiled::Compiled;
use crate::fit::feed::Feed;
use crate::fit::step::Plan;
use crate::fit::tally::Tally;
use crate::strategy::seed_of;
use crate::{StepContext, Steps};
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

/// How long a worker with nothing left waits before it says so, that others get the steps it would take.
const NOTHING_LEFT: Duration = Duration::from_millis(3);

/// What a training step is told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Order {
    /// The pass over the data that it belongs to; `None` where the data goes on from epoch to epoch.
    pub(super) pass: Option<u64>,
    /// `None`: that of the optimizer the model was compiled with.
    pub(super) learning_rate: Option<f32>,
}

impl Order {
    pub(super) fn arguments(self) -> [f64; 2] {
        [self.pass.map_or(-1.0, |pass| pass as f64), self.learning_rate.map_or(-1.0, f64::from)]
    }

    fn read(arguments: &[f64]) -> Self {
        let at = |place: usize| arguments.get(place).copied().filter(|number| *number >= 0.0);
        Self { pass: at(0).map(|pass| pass as u64), learning_rate: at(1).map(|rate| rate as f32) }
    }
}

/// What a training step says.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Told {
    /// Who ran it.
    pub(super) task: TaskId,
    /// What it counted; `None` where the worker's share has ended.
    pub(super) words: Option<Vec<f64>>,
}

impl Told {
    fn to_words(&self) -> Vec<f64> {
        let role = Role::ALL.iter().position(|role| *role == self.task.role).unwrap_or(0);
        let mut words = vec![f64::from(self.words.is_some()), role as f64, f64::from(self.task.index)];
        words.extend(self.words.iter().flatten());
        words
    }

    pub(super) fn read(words: &[f64]) -> Result<Self> {
        let wrong = || Error::new(Code::BadMessage, "a worker's answer is not one to a training step");
        let ([trained, role, index], words) = words.split_first_chunk().ok_or_else(wrong)?;
        let role = Role::ALL.get(*role as usize).copied().ok_or_else(wrong)?;
        Ok(Self { task: TaskId::new(role, *index as u32), words: (*trained > 0.0).then(|| words.to_vec()) })
    }
}

/// What every worker needs to know for its steps.
struct Kit {
    feed: Feed,
    aims: Vec<Aim>,
    device: Device,
}

/// The steps of a `fit` with this data to learn from and that to evaluate on.
pub(super) fn steps<M: Network>(
    compiled: &Compiled<M>,
    training: Option<Shared>,
    held_out: Option<Shared>,
) -> Steps<M> {
    let aims = compiled.aims.iter().map(Aim::copy).collect();
    let kit = Arc::new(Kit { feed: compiled.feed.clone(), aims, device: compiled.strategy().home().clone() });
    let mut steps = Steps::new();
    if let Some(data) = training {
        let kit = Arc::clone(&kit);
        steps = steps.dataset(DATA, move |cx| data.of(cx)).step(TRAIN, move |cx| kit.train(cx));
    }
    if let Some(data) = held_out {
        steps = steps.dataset(HELD_OUT, move |cx| data.of(cx)).evaluation(VALIDATE, move |cx| kit.validate(cx));
    }
    steps
}

impl Kit {
    /// Trains on the next batch of the worker's share.
    fn train<M: Network>(&self, cx: &mut StepContext<'_, M>) -> Result<Vec<f64>> {
        let order = Order::read(cx.arguments());
        let Some(batch) = Self::next_batch(cx, order)? else {
            if cx.acts_for_another() {
                push_nothing(cx, &self.device)?;
            }
            std::thread::sleep(NOTHING_LEFT);
            return Ok(Told { task: cx.task(), words: None }.to_words());
        };
        let plan = Plan { feed: &self.feed, aims: &self.aims, learning: true };
        let mut tally = Tally::new(&self.aims);
        let mode = Mode::Training { seed: seed_of(cx.id(), u64::from(cx.task().index + 1)) };
        let step = cx.with_session(|session| {
            session.set_learning_rate(order.learning_rate);
            session.step_with_values(&[], |model, _| {
                let outputs = plan.outputs(model, &batch, &self.device, mode)?;
                let sum = plan.loss(&batch, outputs, &self.device, &mut tally)?;
                Ok((sum / batch.rows() as f32, |_: &mut Gradients| Ok(Vec::new())))
            })
        })?;
        step.ok_or_else(|| Error::new(Code::JobFailed, "the job ended before the step did").relayed())?;
        Ok(Told { task: cx.task(), words: Some(tally.words()) }.to_words())
    }

    /// The next batch with rows; `None` at the end of the pass.
    fn next_batch<M: Network>(cx: &mut StepContext<'_, M>, order: Order) -> Result<Option<Batch>> {
        if let Some(pass) = order.pass
            && cx.begin_pass(DATA, pass)? > pass
        {
            // A chief that was started again asks for a pass that is done.
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
            return Err(Error::new(Code::BadMessage, "an evaluation was not told which part it is"));
        };
        let plan = Plan { feed: &self.feed, aims: &self.aims, learning: false };
        let mut tally = Tally::new(&self.aims);
        let batches = cx.part(HELD_OUT, part as usize, of as usize)?;
        let model = cx.newest_model()?.clone().no_grad();
        for batch in batches {
            let batch = batch?;
            if batch.is_empty() {
                continue;
            }
            let outputs = plan.outputs(&model, &batch, &self.device, Mode::Inference)?;
            plan.loss(&batch, outputs, &self.device, &mut tally)?;
        }
        Ok(tally.words())
    }
}

/// Completes the update that a lost worker began with gradients of nothing: the servers that miss it then have it.
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
            let order = Order { pass, learning_rate };
            assert_eq!(Order::read(&order.arguments()), order);
        }
        for words in [None, Some(vec![]), Some(vec![1.5, -2.0])] {
            let told = Told { task: TaskId::new(Role::Worker, 3), words };
            assert_eq!(Told::read(&told.to_words()).unwrap(), told);
        }
        assert!(Told::read(&[1.0]).is_err() && Told::read(&[1.0, 99.0, 0.0]).is_err());
    }
}
