//! The loop that trains.

use crate::input::{Input, Ready, read};
use crate::run_config::Cadence;
use crate::{Control, Estimator, Hook, Trainable};
use phalanx_base::{Code, Context, Error, Result};
use phalanx_data::Dataset;
use phalanx_nn::default_device;
use phalanx_nn::model::Mode;
use phalanx_optim::Sgd;
use phalanx_ps::checkpoint::Checkpoint;
use phalanx_train::checkpoint::Saved;
use phalanx_train::{Server, Session, Step, Supervisor};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Instant;

/// So many batches are made ready ahead of the step that needs them.
const AHEAD: usize = 2;

/// How long to train.
///
/// ```
/// use phalanx_data::{Batch, Column, Dataset, Input};
/// use phalanx_estimator::{Estimator, LinearRegressor, RunConfig, Steps};
/// use phalanx_feature::numeric_column;
/// let rows = || Batch::new([("x", Column::f32(vec![0.0, 1.0])), ("y", Column::f32(vec![1.0, 3.0]))]).and_then(|b| b.with_label("y"));
/// let data = Dataset::from_tensor_slices(rows()?).repeat().batch(2);
/// let config = RunConfig::new().log_step_count_steps(None).say(|_| {});
/// let estimator = Estimator::new(&LinearRegressor::new([numeric_column("x")]), config)?;
/// let input = data.clone();
/// assert_eq!(estimator.train(move |_| input.clone(), Steps::Max(10))?.global_step, 10);
/// assert_eq!(estimator.train(move |_| data.clone(), Steps::More(5))?.global_step, 15);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Steps {
    /// Until the input ends.
    UntilEnd,
    /// So many more steps.
    More(u64),
    /// Until so many steps have been made in all, those of former runs included.
    Max(u64),
}

/// Why training ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// The steps that were asked for are made.
    StepsReached,
    /// They were made before: nothing was trained.
    AlreadyTrained,
    /// The input ended.
    InputEnded,
    /// A hook asked for it.
    Stopped,
    /// The chief ended the job.
    JobOver,
}

/// What a training was.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Training {
    /// The committed steps of all trainers, those of former runs included.
    pub global_step: u64,
    /// The steps that this task made.
    pub steps: u64,
    /// The loss of its last step.
    pub loss: Option<f32>,
    /// How long it took, without the start.
    pub seconds: f64,
    /// Why it ended.
    pub ended: Ended,
}

/// Called with every checkpoint that is saved while training goes on.
pub(crate) type OnSaved<'a> = &'a mut dyn FnMut(&Saved) -> Result<()>;

/// One task's training.
pub(crate) struct Trainer<'a, M: Trainable> {
    pub(crate) estimator: &'a Estimator<M>,
    pub(crate) server: &'a Server,
    pub(crate) hooks: &'a mut [Box<dyn Hook>],
    pub(crate) on_saved: OnSaved<'a>,
}

impl<M: Trainable> Trainer<'_, M> {
    pub(crate) fn train(mut self, data: &Dataset, until: Steps) -> Result<Training> {
        if self.server.is_chief()
            && let Some(from) = self.estimator.warm_start()?
        {
            self.server.say(&format!("starting from {from}"));
        }
        let supervisor = self.supervisor()?;
        let module = self.estimator.model.module(&default_device())?;
        let mut session = supervisor.prepare_or_wait_for_session(module)?;
        let first = session.global_step();
        let last = match until {
            Steps::UntilEnd => None,
            Steps::More(steps) => Some(first + steps),
            Steps::Max(steps) => Some(steps),
        };
        if let Some(last) = last {
            self.server.expect_steps(last);
        }
        let mut made =
            Training { global_step: first, steps: 0, loss: None, seconds: 0.0, ended: Ended::AlreadyTrained };
        if last.is_some_and(|last| first >= last) {
            let place = self.estimator.dir.location();
            self.server
                .say(&format!("{place} has {first} steps already: nothing is trained; raise max_steps to go on"));
        } else {
            self.hooks.iter_mut().try_for_each(|hook| hook.begin(first))?;
            let started = Instant::now();
            made.ended = self.feed(&mut session, data, last, &mut made)?;
            made.seconds = started.elapsed().as_secs_f64();
        }
        session.finish()?;
        made.global_step = session.global_step();
        if made.ended != Ended::AlreadyTrained {
            self.hooks.iter_mut().try_for_each(|hook| hook.end(made.global_step))?;
        }
        if made.ended != Ended::InputEnded {
            supervisor.stop(session)?;
            return Ok(made);
        }
        // The others still have a share of the input, and the last checkpoint has what they learn from it.
        supervisor.stop_with_workers(session)?;
        if self.server.is_chief()
            && let Some(newest) = self.estimator.latest_checkpoint()?
        {
            made.global_step = Checkpoint::open(&self.estimator.dir, &newest)?.global_step()?;
        }
        Ok(made)
    }

    fn supervisor(&self) -> Result<Supervisor> {
        let (model, config) = (&*self.estimator.model, &self.estimator.config);
        // Every variable is given its own optimizer below, so no gradient meets this one.
        let mut supervisor = Supervisor::new(self.server, Sgd::new(0.0))
            .run_dir(self.estimator.dir.clone())
            .checkpoint_basename(crate::trained::BASENAME)
            .max_to_keep(config.keep_checkpoint_max)
            .keep_checkpoint_every_n_hours(config.keep_checkpoint_every_n_hours)
            .ready_deadline(config.session_creation_timeout)
            .save_summaries_secs(None)
            .overlap(config.overlap);
        supervisor = match config.cadence {
            Cadence::Seconds(seconds) => supervisor.save_model_secs(seconds),
            Cadence::Steps(steps) if !self.saves_itself() => supervisor.save_model_secs(None).save_model_steps(steps),
            Cadence::Steps(_) | Cadence::Ends => supervisor.save_model_secs(None),
        };
        for variable in self.estimator.variables.iter() {
            supervisor = supervisor.optimizer_of(variable, model.optimizer(variable)?);
        }
        Ok(model.tables().iter().fold(supervisor, |supervisor, table| supervisor.table(table.spec.clone())))
    }

    /// A trainer that is alone saves between two of its steps, exactly at those that were asked for.
    fn saves_itself(&self) -> bool {
        self.server.config().trainers().len() == 1
    }

    /// Makes batches ready on a thread of its own, and steps with them.
    fn feed(
        &mut self,
        session: &mut Session<M::Module>,
        data: &Dataset,
        last: Option<u64>,
        made: &mut Training,
    ) -> Result<Ended> {
        let model = &*self.estimator.model;
        std::thread::scope(|scope| {
            let (sender, receiver) = sync_channel(AHEAD);
            let read = move || {
                if let Err(error) = read(model, data, &sender) {
                    // Nobody listens any more where training has ended.
                    let _ = sender.send(Err(error));
                }
            };
            let thread = std::thread::Builder::new().name("phalanx-input".into());
            thread
                .spawn_scoped(scope, read)
                .context(Code::Internal, "the thread that reads input cannot be started")?;
            self.steps(session, receiver, last, made)
        })
    }

    fn steps(
        &mut self,
        session: &mut Session<M::Module>,
        input: Receiver<Result<Ready<M::Input>>>,
        last: Option<u64>,
        made: &mut Training,
    ) -> Result<Ended> {
        let mut pace = Pace::new(session.global_step());
        pace.told = session.newest_checkpoint().map(|saved| saved.name);
        let mut input = Input::new(input);
        while let Some(ready) = input.take()? {
            if self.estimator.config.overlap
                && let Some(next) = input.next()?
            {
                session.announce(&self.estimator.model.ids(&next.input))?;
            }
            let Some(step) = self.step(session, &ready)? else { return Ok(Ended::JobOver) };
            if last.is_some_and(|last| step.global_step >= last) {
                // The others were faster: this step is one too many.
                session.forget_last_step();
                return Ok(Ended::StepsReached);
            }
            // The gradients of this step go with the next message: they are as good as committed.
            let reached = Step { global_step: step.global_step + 1, ..step };
            (made.steps, made.loss) = (made.steps + 1, Some(step.loss));
            self.show(session, &mut pace, &reached);
            let mut stop = false;
            for hook in self.hooks.iter_mut() {
                stop |= hook.after_step(&reached)? == Control::Stop;
            }
            if stop {
                return Ok(Ended::Stopped);
            }
            if last.is_some_and(|last| reached.global_step >= last) {
                return Ok(Ended::StepsReached);
            }
            self.save(session, &mut pace, reached.global_step)?;
        }
        Ok(Ended::InputEnded)
    }

    fn step(&self, session: &mut Session<M::Module>, ready: &Ready<M::Input>) -> Result<Option<Step>> {
        let model = &*self.estimator.model;
        let mode =
            Mode::Training { seed: self.estimator.config.seed ^ session.global_step().wrapping_mul(0x2545_f491) };
        session.step_with_values(&model.ids(&ready.input), |module, rows| {
            let forward = model.forward(module, &ready.input, rows, mode)?;
            let loss = model.head().loss(forward.logits, &ready.targets)?;
            let loss = match forward.drift {
                // Only its slope counts.
                Some(drift) => loss + (drift.clone() - drift.detach()),
                None => loss,
            };
            Ok((loss, forward.row_gradients))
        })
    }

    /// Writes and says loss and rate where it is time.
    fn show(&self, session: &Session<M::Module>, pace: &mut Pace, step: &Step) {
        let config = &self.estimator.config;
        if config.save_summary_steps > 0 && pace.made.is_multiple_of(config.save_summary_steps) {
            session.summaries().scalar(step.global_step, "loss", step.loss);
        }
        pace.made += 1;
        if let Some(every) = config.log_step_count_steps
            && self.server.is_chief()
            && step.global_step >= pace.said.1 + every
        {
            let rate = (step.global_step - pace.said.1) as f64 / pace.said.0.elapsed().as_secs_f64();
            session.summaries().scalar(step.global_step, "global_step/sec", rate as f32);
            self.server.say(&format!("step {}: loss {:.5}, {rate:.0} steps/s", step.global_step, step.loss));
            pace.said = (Instant::now(), step.global_step);
        }
    }

    /// Saves where it is time, and tells who wants to know of a new checkpoint.
    fn save(&mut self, session: &mut Session<M::Module>, pace: &mut Pace, reached: u64) -> Result<()> {
        if let Cadence::Steps(every) = self.estimator.config.cadence
            && self.saves_itself()
            && reached >= pace.saved + every
        {
            session.finish()?;
            session.save()?;
            pace.saved = reached;
        }
        if !self.server.is_chief() {
            return Ok(());
        }
        if let Some(saved) = session.newest_checkpoint().filter(|saved| pace.told.as_ref() != Some(&saved.name)) {
            (self.on_saved)(&saved)?;
            pace.told = Some(saved.name);
        }
        Ok(())
    }
}

/// When what was done last.
struct Pace {
    made: u64,
    said: (Instant, u64),
    saved: u64,
    told: Option<String>,
}

impl Pace {
    fn new(step: u64) -> Self {
        Self { made: 0, said: (Instant::now(), step), saved: step, told: None }
    }
}

/// Refuses an input that is not batched.
pub(crate) fn check_batched(data: &Dataset) -> Result<()> {
    if data.is_batched() {
        return Ok(());
    }
    Err(Error::new(Code::BadSetting, "the input is not batched")
        .because(format!("it is {}", data.describe()))
        .help("end it with .batch(128), or another size"))
}
