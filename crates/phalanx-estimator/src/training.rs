//! The training loop.

use crate::distribution::Distribution;
use crate::input::{BatchStream, PreparedBatch, read};
use crate::replicas::{ReplicaStep, StepPlan, on_tables, tables_of};
use crate::run_config::CheckpointInterval;
use crate::training_task::TrainingTask;
use crate::warm_start::VariableStart;
use crate::{Control, Estimator, Hook, HookContext, StepPart, Trainable};
use phalanx_base::{Code, Context, Result};
use phalanx_cluster::schedule::Consistency;
use phalanx_data::Dataset;
use phalanx_nn::{Slots, default_device};
use phalanx_optim::Sgd;
use phalanx_ps::checkpoint::Checkpoint;
use phalanx_train::checkpoint::Saved;
use phalanx_train::fit::progress::eta;
use phalanx_train::{BoundedStaleness, Session, Step, Supervisor, SyncReplicas, TableId};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

/// How many batches are prepared ahead.
const AHEAD: usize = 2;

/// How long trainers of synchronous rounds wait for each other before the first one.
const TOGETHER: Duration = Duration::from_secs(10);

/// How long to train.
///
/// ```
/// use phalanx_data::{Batch, Column, Dataset, SourceExt};
/// use phalanx_estimator::{Estimator, LinearRegressor, RunConfig, TrainSteps};
/// use phalanx_feature::numeric_column;
/// let rows = || Batch::new([("x", Column::f32(vec![0.0, 1.0])), ("y", Column::f32(vec![1.0, 3.0]))]).and_then(|b| b.with_label("y"));
/// let data = Dataset::from_tensor_slices(rows()?).repeat().batch(2);
/// let config = RunConfig::new().log_step_count_steps(None);
/// let estimator = Estimator::new(&LinearRegressor::new([numeric_column("x")]), config)?;
/// let input = data.clone();
/// assert_eq!(estimator.train(move |_| input.clone(), TrainSteps::Max(10))?.global_step, 10);
/// assert_eq!(estimator.train(move |_| data.clone(), TrainSteps::More(5))?.global_step, 15);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrainSteps {
    /// Until the input ends.
    UntilEnd,
    /// This many steps more.
    More(u64),
    /// Until this global step, which includes the steps of earlier runs.
    Max(u64),
}

/// Why training ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// The requested steps are done.
    StepsReached,
    /// The requested steps were done by earlier runs: nothing was trained.
    AlreadyTrained,
    /// The input ended.
    InputEnded,
    /// A hook stopped it.
    Stopped,
    /// The chief ended the job.
    JobOver,
}

/// The result of a training.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Training {
    /// The committed steps of all trainers, including earlier runs.
    pub global_step: u64,
    /// The steps of this task.
    pub steps: u64,
    /// The loss of this task's last step.
    pub loss: Option<f32>,
    /// The duration in seconds, without start-up.
    pub seconds: f64,
    /// Why training ended.
    pub ended: Ended,
}

/// Called with every checkpoint that is saved during training.
pub(crate) type OnSaved<'a> = &'a mut dyn FnMut(&Saved) -> Result<()>;

/// One task's training.
pub(crate) struct Trainer<'a, M: Trainable> {
    pub(crate) estimator: &'a Estimator<M>,
    pub(crate) task: &'a TrainingTask,
    /// The hooks of the model, then those of the training.
    pub(crate) hooks: Vec<&'a mut Box<dyn Hook>>,
    pub(crate) on_saved: OnSaved<'a>,
    pub(crate) slots: Slots,
}

impl<M: Trainable> Trainer<'_, M> {
    pub(crate) fn train(mut self, data: &Dataset, until: TrainSteps) -> Result<Training> {
        let trained = self.prepare().and_then(|(supervisor, session)| self.run(&supervisor, session, data, until));
        // Workers that step together also end together: if the chief cannot save, no worker has succeeded.
        match (&self.task.workers, &trained) {
            (Some(workers), Ok(_)) => workers.barrier()?,
            (Some(workers), Err(error)) => workers.abort(error),
            (None, _) => {}
        }
        trained
    }

    /// Initializes or restores the model. A mirrored worker begins with the chief's newest checkpoint.
    fn prepare(&self) -> Result<(Supervisor, Session<M::Module>)> {
        let is_chief = self.task.is_chief();
        if is_chief {
            self.begin()?;
        }
        let supervisor = self.supervisor()?;
        let module = self.estimator.model.module(&default_device())?;
        let workers = self.task.workers.as_ref();
        workers.filter(|_| !is_chief).map_or(Ok(()), |workers| workers.barrier())?;
        let session = supervisor.prepare_or_wait_for_session(module)?;
        session.wait_for_trainers(self.task.trainers, TOGETHER)?;
        workers.filter(|_| is_chief).map_or(Ok(()), |workers| workers.barrier())?;
        Ok((supervisor, session))
    }

    fn run(
        &mut self,
        supervisor: &Supervisor,
        mut session: Session<M::Module>,
        data: &Dataset,
        until: TrainSteps,
    ) -> Result<Training> {
        let first = session.global_step();
        let last = match until {
            TrainSteps::UntilEnd => None,
            TrainSteps::More(steps) => Some(first + steps),
            TrainSteps::Max(steps) => Some(steps),
        };
        if let Some(last) = last {
            self.task.server.expect_steps(last);
        }
        session.stop_at(last);
        let mut made =
            Training { global_step: first, steps: 0, loss: None, seconds: 0.0, ended: Ended::AlreadyTrained };
        if last.is_some_and(|last| first >= last) {
            let place = self.estimator.dir.location();
            self.task.in_scope(|| {
                tracing::info!("{place} has {first} steps already: nothing is trained; raise max_steps to go on");
            });
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
        // The other workers may still have data; the last checkpoint includes their updates.
        supervisor.stop_with_workers(session)?;
        if self.task.is_chief()
            && let Some(newest) = self.estimator.latest_checkpoint()?
        {
            made.global_step = Checkpoint::open(&self.estimator.dir, &newest)?.global_step()?;
        }
        Ok(made)
    }

    /// Writes a warm start, and logs what is worth knowing about the checkpoint that training continues from.
    fn begin(&self) -> Result<()> {
        if let Some((from, starts)) = self.estimator.warm_start()? {
            let taken = starts.iter().filter(|start| start.from.is_some()).count();
            self.task.in_scope(|| {
                starts.iter().for_each(VariableStart::log);
                tracing::info!(taken, "starting from {from}: {taken} of {} variables are taken", starts.len());
            });
        }
        let Some(newest) = self.estimator.latest_checkpoint()? else { return Ok(()) };
        // A damaged one is skipped, and reported, when it is restored.
        if let Ok(checkpoint) = Checkpoint::open(&self.estimator.dir, &newest) {
            let notices = self.estimator.check_tables(&checkpoint)?;
            self.task.in_scope(|| notices.iter().for_each(|notice| tracing::warn!("{notice}")));
        }
        Ok(())
    }

    fn supervisor(&self) -> Result<Supervisor> {
        let (model, config) = (&*self.estimator.model, &self.estimator.config);
        // This optimizer is never used: every variable gets its own below.
        let supervisor = Supervisor::new(&self.task.server, Sgd::new(0.0));
        let dir = self.estimator.dir.clone();
        let saves = self.task.workers.is_none() || self.task.is_chief();
        let supervisor = if saves { supervisor.run_dir(dir) } else { supervisor.restore_from(dir) };
        let mut supervisor = supervisor
            .partitioner(config.partitioner)
            .placement(config.placement.clone())
            .max_to_keep(config.retention.max_to_keep)
            .keep_checkpoint_every_n_hours(config.retention.keep_every_n_hours)
            .ready_deadline(config.session_creation_timeout)
            .save_summaries_steps(Some(config.save_summary_steps).filter(|&steps| steps > 0))
            .save_histograms(config.save_histograms)
            .non_finite(config.non_finite)
            .moving_averages(true)
            .overlap(config.overlap);
        supervisor = match self.task.distribution {
            Distribution::Servers(Consistency::Rounds { size, backups }) => {
                supervisor.sync(SyncReplicas { replicas_to_aggregate: Some((size - backups) as u32) })
            }
            Distribution::Servers(Consistency::Bounded(steps)) => supervisor.bounded(BoundedStaleness { steps }),
            Distribution::Servers(Consistency::Async) | Distribution::Replicas(_) | Distribution::Workers(_) => {
                supervisor
            }
        };
        supervisor = match config.checkpoint_interval {
            CheckpointInterval::Growing => supervisor,
            CheckpointInterval::Seconds(seconds) => supervisor.save_model_secs(seconds),
            CheckpointInterval::Steps(steps) if !self.saves_itself() => {
                supervisor.save_model_secs(None).save_model_steps(steps)
            }
            CheckpointInterval::Steps(_) | CheckpointInterval::Ends => supervisor.save_model_secs(None),
        };
        for variable in self.estimator.variables.iter() {
            supervisor = supervisor.optimizer_of(variable, model.optimizer(variable)?);
        }
        for table in model.tables() {
            supervisor.table(table.spec.clone())?;
        }
        Ok(supervisor)
    }

    /// Returns whether this is the only trainer: it saves between two steps, exactly at the requested ones.
    fn saves_itself(&self) -> bool {
        self.task.is_alone() || self.task.workers.is_some()
    }

    /// Trains on batches that another thread prepares.
    fn feed(
        &mut self,
        session: &mut Session<M::Module>,
        data: &Dataset,
        last: Option<u64>,
        made: &mut Training,
    ) -> Result<Ended> {
        let (model, replicas) = (&*self.estimator.model, self.task.distribution.replicas());
        let data = &data.with_block_claims(&session.block_claims());
        std::thread::scope(|scope| {
            let (sender, receiver) = sync_channel(AHEAD);
            let read = move || {
                if let Err(error) = read(model, data, replicas, &sender) {
                    // The receiver is gone if training has ended.
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
        input: Receiver<Result<PreparedBatch<M::Input>>>,
        last: Option<u64>,
        made: &mut Training,
    ) -> Result<Ended> {
        let mut state = LoopState::new(session.global_step(), last);
        state.told = session.newest_checkpoint().map(|saved| saved.name);
        let tables = tables_of(&*self.estimator.model, session)?;
        let mut input = BatchStream::new(input);
        let (mut reached, mut stop) = (session.global_step(), false);
        loop {
            let ready = input.take()?;
            let ready = match (ready, &self.task.workers) {
                (Some(ready), _) => ready,
                // The others may have input left.
                (None, Some(_)) => Vec::new(),
                (None, None) => {
                    if session.is_synchronous() {
                        session.commit()?;
                    }
                    return Ok(Ended::InputEnded);
                }
            };
            if self.estimator.config.overlap
                && let Some([next]) = input.next()?.map(Vec::as_slice)
            {
                session.announce(&on_tables(&tables, self.estimator.model.ids(&next.input)))?;
            }
            self.before_step(session, reached)?;
            let step = match self.step(session, &tables, &ready, stop)? {
                Outcome::Made(step) => step,
                Outcome::Ended(ended) => return Ok(ended),
            };
            // The gradients of this step are sent with the next exchange: count them as committed.
            let made_step = Step { global_step: step.global_step + 1, ..step };
            reached = made_step.global_step;
            (made.steps, made.loss) = (made.steps + 1, Some(step.loss));
            self.log(&mut state, &made_step);
            for hook in &mut self.hooks {
                stop |= hook.after_step(&made_step)? == Control::Stop;
            }
            if stop && self.task.workers.is_none() {
                return Ok(Ended::Stopped);
            }
            if last.is_some_and(|last| reached >= last) {
                if session.is_synchronous() {
                    // The step counts when its round is closed.
                    session.commit()?;
                }
                if !session.is_synchronous() || session.has_reached_last_step() {
                    return Ok(Ended::StepsReached);
                }
            }
            self.save(session, &mut state, reached)?;
        }
    }

    fn before_step(&mut self, session: &mut Session<M::Module>, global_step: u64) -> Result<()> {
        let mut fetch = || {
            session.commit()?;
            session.values()
        };
        let mut context = HookContext { global_step, fetch: &mut fetch };
        self.hooks.iter_mut().try_for_each(|hook| hook.before_step(&mut context))
    }

    /// Computes a step. Workers that step together first agree on it; `stop` asks the others to end.
    fn step(
        &self,
        session: &mut Session<M::Module>,
        tables: &[TableId],
        ready: &PreparedBatch<M::Input>,
        stop: bool,
    ) -> Result<Outcome> {
        let (model, workers) = (&*self.estimator.model, self.task.workers.as_deref());
        let seed = self.estimator.config.seed ^ session.global_step().wrapping_mul(0x2545_f491);
        let step = match (workers, ready.as_slice()) {
            (None, [part]) => {
                session.step_with_gradients(&on_tables(tables, model.ids(&part.input)), |module, registry, rows| {
                    let (input, targets) = (&part.input, &part.targets);
                    model.step(module, registry, StepPart { input, rows, seed, targets, share: 1.0 })
                })?
            }
            _ => {
                let plan = match workers {
                    None => StepPlan::alone(model, ready),
                    Some(workers) => {
                        let stop = stop || self.task.server.should_stop();
                        let plan = StepPlan::agree(workers, model, ready, session.global_step(), stop)?;
                        if plan.stop {
                            return Ok(Outcome::Ended(if stop { Ended::Stopped } else { Ended::JobOver }));
                        }
                        if plan.rows == 0 {
                            return Ok(Outcome::Ended(Ended::InputEnded));
                        }
                        plan
                    }
                };
                let first = self.task.first_replica();
                let seed = |place: usize| seed ^ ((first + place) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let step = ReplicaStep { model, parts: ready, plan: &plan, slots: &self.slots, workers, seed: &seed };
                session.step_with_gradients(&on_tables(tables, plan.ids()), |module, registry, rows| {
                    step.compute(module, registry, &rows)
                })?
            }
        };
        Ok(match step {
            Some(step) => Outcome::Made(step),
            None if session.has_reached_last_step() => Outcome::Ended(Ended::StepsReached),
            None => Outcome::Ended(Ended::JobOver),
        })
    }

    /// Logs loss and speed when due. The session writes the summaries.
    fn log(&self, state: &mut LoopState, step: &Step) {
        if let Some(every) = self.estimator.config.log_step_count_steps
            && self.task.is_chief()
            && step.global_step >= state.said.1 + every
        {
            let rate = (step.global_step - state.said.1) as f64 / state.said.0.elapsed().as_secs_f64();
            let Step { global_step: step, loss, .. } = *step;
            let progress = state.last.map_or_else(String::new, |last| progress(step, last, rate));
            self.task.in_scope(|| {
                tracing::info!(step, loss, rate, "step {step}: loss {loss:.5}, {rate:.0} steps/s{progress}")
            });
            state.said = (Instant::now(), step);
        }
    }

    /// Saves when due, and calls `on_saved` for a new checkpoint.
    fn save(&mut self, session: &mut Session<M::Module>, state: &mut LoopState, reached: u64) -> Result<()> {
        if let CheckpointInterval::Steps(every) = self.estimator.config.checkpoint_interval
            && self.saves_itself()
            && reached >= state.saved + every
        {
            session.finish()?;
            state.saved = reached;
            match session.save() {
                // As in a job of several tasks; the save at the end must succeed.
                Err(error) if error.code() == Code::StorageWrite => self.task.in_scope(|| {
                    tracing::warn!(code = %error.code(), "training continues, but no checkpoint was saved: {error}");
                }),
                saved => saved?,
            }
        }
        if !self.task.is_chief() {
            return Ok(());
        }
        if let Some(saved) = session.newest_checkpoint().filter(|saved| state.told.as_ref() != Some(&saved.name)) {
            (self.on_saved)(&saved)?;
            state.told = Some(saved.name);
        }
        Ok(())
    }
}

/// What became of a step.
enum Outcome {
    Made(Step),
    Ended(Ended),
}

/// What the loop has done last.
struct LoopState {
    /// The step at which training ends, if that is known.
    last: Option<u64>,
    said: (Instant, u64),
    saved: u64,
    told: Option<String>,
}

impl LoopState {
    fn new(step: u64, last: Option<u64>) -> Self {
        Self { last, said: (Instant::now(), step), saved: step, told: None }
    }
}

/// Returns how far a training is, and how long it takes from here: `, 60 %, 3:21 left`.
fn progress(step: u64, last: u64, rate: f64) -> String {
    let percent = (100.0 * step as f64 / last.max(1) as f64).min(100.0);
    let left = last.saturating_sub(step) as f64 / rate;
    // Rounded down: 100 % means done.
    let left = if left.is_finite() { format!(", {} left", eta(left)) } else { String::new() };
    format!(", {:.0} %{left}", percent.floor())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_a_percentage_and_the_time_left() {
        assert_eq!(progress(1_200, 2_000, 4.0), ", 60 %, 3:20 left");
        assert_eq!(progress(1_999, 2_000, 1e3), ", 99 %, 0s left");
        assert_eq!(progress(2_000, 2_000, 1e3), ", 100 %, 0s left");
        assert_eq!(progress(10, 2_000, 0.0), ", 0 %", "a rate of 0 has no end");
    }
}
