//! The training loop.

use super::input::Input;
use super::lookups::{BatchIds, BatchRows};
use super::{Trained, Trainer, malformed};
use crate::coordinator::stop_reason;
use crate::fit::progress::eta;
use crate::services::Timer;
use crate::{IntoStep, Session, Step};
use phalanx_base::Result;
use phalanx_data::{Batch, Dataset};
use phalanx_nn::Rows;
use phalanx_nn::burn::module::Module;
use std::time::{Duration, Instant};

/// How long trainers of synchronous rounds wait for each other before the first one.
const TOGETHER: Duration = Duration::from_secs(10);

/// When the chief logs how far training is: first, and how often then.
const PROGRESS: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(10));

impl<M: Module> Trainer<M> {
    /// Trains until the model has made `steps` steps, or the input ends. `steps` counts those of all trainers and of earlier
    /// runs: a restarted job continues, and a second call with more steps continues from the first. `step` gets the
    /// model with its newest values, the rows of the batch's ids and the batch, and returns the loss.
    ///
    /// Every trainer makes this call, reads its share of `data`, and returns when all of them have ended and the chief has
    /// saved. The position in the input is saved with every step, so that a trainer that is started again continues with the
    /// batch after its last one.
    ///
    /// ```
    /// use phalanx_base::Result;
    /// use phalanx_data::{Batch, Column, Dataset};
    /// use phalanx_nn::burn::nn::LinearConfig;
    /// use phalanx_nn::metrics::MeanSquaredError;
    /// use phalanx_optim::Sgd;
    /// use phalanx_train::{BatchTensors, Server};
    /// let device = phalanx_nn::default_device();
    /// let points = Batch::new([("x", Column::f32(vec![0.0, 1.0, 2.0])), ("y", Column::f32(vec![1.0, 3.0, 5.0]))])?;
    /// let points = Dataset::from_tensor_slices(points.with_label("y")?);
    /// let error = Server::local()?.run(|task| {
    ///     let mut trainer = task.trainer(LinearConfig::new(1, 1).init(&device), Sgd::new(0.1));
    ///     let trained = trainer.train(points.clone().repeat().batch(3), 200, |model, _, batch| {
    ///         let error = model.forward(batch.tensor::<2>("x", &device)?) - batch.tensor("y", &device)?;
    ///         Result::Ok(error.powf_scalar(2.0).mean())
    ///     })?;
    ///     assert_eq!(trained.global_step, 200);
    ///     trainer.evaluate(points.batch(3), MeanSquaredError::new(), |model, _, batch| {
    ///         Result::Ok(model.forward(batch.tensor::<2>("x", &device)?))
    ///     })
    /// })?;
    /// assert!(error.unwrap() < 1e-3);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the input is not batched or cannot be read, what `step` returns, or when the job fails or is asked to stop.
    pub fn train<S: IntoStep>(
        &mut self,
        data: Dataset,
        steps: u64,
        step: impl FnMut(&M, &BatchRows, &Batch) -> S,
    ) -> Result<Trained> {
        self.train_with(data, steps, step, |_, _| Ok(()))
    }

    /// As [`Self::train`], and calls `after` with the result of each step that this task made and the value that `step`
    /// returned beside the loss.
    ///
    /// ```
    /// # use phalanx_data::Dataset;
    /// # use phalanx_nn::burn::{nn::LinearConfig, tensor::Tensor};
    /// # use phalanx_optim::Sgd;
    /// # use phalanx_train::Server;
    /// # let device = phalanx_nn::default_device();
    /// # Server::local()?.run(|task| {
    /// # let mut trainer = task.trainer(LinearConfig::new(1, 1).init(&device), Sgd::new(0.1));
    /// # let data = Dataset::range(0, 1, 1).repeat().batch(4);
    /// let mut rows = 0;
    /// let step = |model: &phalanx_nn::burn::nn::Linear, _: &_, batch: &phalanx_data::Batch| {
    ///     (model.forward(Tensor::<2>::ones([4, 1], &device)).mean(), batch.rows())
    /// };
    /// trainer.train_with(data, 10, step, |_, of_step| {
    ///     rows += of_step;
    ///     Ok(())
    /// })?;
    /// assert_eq!(rows, 40);
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::train`], and what `after` returns.
    pub fn train_with<S: IntoStep>(
        &mut self,
        data: Dataset,
        steps: u64,
        mut step: impl FnMut(&M, &BatchRows, &Batch) -> S,
        mut after: impl FnMut(Step, S::Value) -> Result<()>,
    ) -> Result<Trained> {
        self.call(|trainer, session| {
            let first = session.global_step();
            let mut made = Trained { global_step: first, steps: 0, loss: None, seconds: 0.0 };
            let began = Instant::now();
            session.stop_at(steps);
            if !session.has_reached_last_step() {
                trainer.server().expect_steps(steps);
                data.check_batched()?;
                let share = trainer.server().share(&data)?;
                let position = trainer.position.take();
                let mut input = trainer.server().in_scope(|| Input::open(&share, position.as_deref()))?;
                session.wait_for_trainers(trainer.server().config().trainers().len(), TOGETHER)?;
                let progress = Progress::new(first, steps);
                trainer.steps(session, (&mut input, progress), &mut step, &mut after, &mut made)?;
            }
            session.finish()?;
            session.stop_at(None);
            made.seconds = began.elapsed().as_secs_f64();
            made.global_step = trainer.end_training(session, first)?;
            Ok(made)
        })
    }

    /// Makes steps until there are enough or the input ends.
    fn steps<S: IntoStep>(
        &self,
        session: &mut Session<M>,
        (input, mut progress): (&mut Input, Progress),
        mut step: impl FnMut(&M, &BatchRows, &Batch) -> S,
        mut after: impl FnMut(Step, S::Value) -> Result<()>,
        made: &mut Trained,
    ) -> Result<()> {
        let mut announced: Option<BatchIds> = None;
        while let Some((batch, position)) = input.take()? {
            let ids = announced.take().map_or_else(|| self.lookups.ids(&batch), Ok)?;
            if self.supervisor.overlaps()
                && let Some(next) = input.peek()?
            {
                let next = self.lookups.ids(next)?;
                session.announce(&next.as_slices())?;
                announced = Some(next);
            }
            session.save_position(position);
            let compute = |model: &M, rows: &[Rows]| step(model, &self.lookups.rows(&ids, rows), &batch);
            match session.step_with_rows(&ids.as_slices(), compute)? {
                Some(Step { loss, global_step, value }) => {
                    let step = Step { loss, global_step, value: () };
                    (made.steps, made.loss) = (made.steps + 1, Some(loss));
                    after(step, value)?;
                    if self.server().is_chief() {
                        self.server().in_scope(|| progress.log(step));
                    }
                }
                None if session.has_reached_last_step() => return Ok(()),
                None => return stop_reason(self.server()).map_or(Ok(()), Err),
            }
        }
        if session.is_synchronous() {
            // The last step counts when its round is closed.
            session.commit()?;
        }
        Ok(())
    }

    /// Waits for the other trainers, saves, and returns the global step of all. Every trainer then has the newest values.
    fn end_training(&self, session: &mut Session<M>, first: u64) -> Result<u64> {
        let outcome = if self.server().is_chief() {
            self.wait_for_trainers(session)?;
            self.rejoin(session)?;
            if session.global_step() != first {
                session.save()?;
            }
            let step = session.global_step().to_le_bytes();
            self.publish(step.to_vec().into())?
        } else {
            self.await_outcome(|| self.rejoin(session))?
        };
        outcome.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes)).ok_or_else(malformed)
    }
}

/// Logs how far training is.
struct Progress {
    timer: Timer,
    since: (Instant, u64),
    last: u64,
}

impl Progress {
    fn new(step: u64, last: u64) -> Self {
        Self { timer: Timer::after(PROGRESS.0, PROGRESS.1), since: (Instant::now(), step), last }
    }

    fn log(&mut self, Step { loss, global_step: step, .. }: Step) {
        let now = Instant::now();
        if !self.timer.is_due(now) {
            return;
        }
        let rate = step.saturating_sub(self.since.1) as f64 / (now - self.since.0).as_secs_f64();
        let left = self.last.saturating_sub(step) as f64 / rate;
        let left = if left.is_finite() { format!(", {} left", eta(left)) } else { String::new() };
        tracing::info!(step, loss, rate, "step {step}: loss {loss:.5}, {rate:.0} steps/s{left}");
        self.since = (now, step);
    }
}
