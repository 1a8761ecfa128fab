//! The loop of `fit`: epochs, steps, callbacks.

use super::accumulators::Accumulators;
use super::callbacks::{Callback, FitContext};
use super::evaluate::{ValidationData, nothing};
use super::progress::Progress;
use super::state::{FitPosition, ResumeState};
use super::step::StepPlan;
use super::step_metadata::StepMetadata;
use super::{Compiled, Data, Fit, History, Logs};
use crate::strategy::{DistributedDataset, ReplicaUpdate, with_rows};
use phalanx_base::{Code, Error, Result};
use phalanx_data::{Batch, Position, ReplicaIterator};
use phalanx_nn::Network;
use phalanx_nn::model::Mode;
use std::io::{Stdout, stdout};

/// The state of a running `fit`.
struct TrainingState<'a, M> {
    compiled: &'a mut Compiled<M>,
    input: DistributedDataset,
    validation: Option<ValidationData>,
    fit: Fit,
    callbacks: Vec<Box<dyn Callback>>,
    progress: Progress<Stdout>,
    accumulators: Vec<Accumulators>,
    batches: Batches,
    at: FitPosition,
    /// A callback of this process asked to stop.
    asked: bool,
    /// All workers stop.
    stop: bool,
    /// One of the workers was interrupted.
    interrupted: bool,
}

/// The iterator of the current pass, and whether it has ended.
#[derive(Default)]
struct Batches {
    iterator: Option<ReplicaIterator>,
    ended: bool,
}

impl<M: Network> Compiled<M> {
    /// Trains on `data` and returns the logs of every epoch.
    ///
    /// # Errors
    /// Fails if the data cannot be read or does not fit the model, a worker is lost, a callback fails, the process is
    /// interrupted ([`Fit::interrupt`]), or `TF_CONFIG` names a cluster that the strategy would ignore.
    pub fn fit(&mut self, data: impl Into<Data>, fit: Fit) -> Result<History> {
        crate::logging::init();
        let data = data.into();
        self.telling_others(|compiled| TrainingState::new(compiled, data, fit)?.run())
    }
}

impl<'a, M: Network> TrainingState<'a, M> {
    fn new(compiled: &'a mut Compiled<M>, data: Data, mut fit: Fit) -> Result<Self> {
        compiled.strategy().check_cluster()?;
        let (data, validation) = compiled.take_data(data, &mut fit)?;
        let batched = data.batched(fit.batch_size, (!fit.in_order).then_some(fit.seed))?;
        let target = fit.steps_per_epoch.or(batched.steps);
        let batched = if fit.steps_per_epoch.is_some() { batched.repeated() } else { batched };
        let input = compiled.strategy().distribute_dataset(&batched.dataset)?;
        let validation = validation
            .map(|data| {
                // `batch_size` is for arrays: the training data may be arrays while these are a dataset.
                let size = fit.batch_size.filter(|_| data.is_rows());
                compiled.validation(data.batched(size, None)?, fit.validation_steps)
            })
            .transpose()?;
        compiled.resolve(&input)?;
        let shown = compiled.shown(fit.verbose);
        let accumulators =
            (0..compiled.strategy().local_replicas()).map(|_| Accumulators::new(&compiled.objectives)).collect();
        Ok(Self {
            input,
            validation,
            callbacks: std::mem::take(&mut fit.callbacks),
            progress: Progress::new(stdout(), shown, target),
            accumulators,
            batches: Batches::default(),
            at: FitPosition { epoch: fit.initial_epoch, batch: 0 },
            asked: false,
            stop: false,
            interrupted: false,
            compiled,
            fit,
        })
    }

    fn run(mut self) -> Result<History> {
        let epochs = self.fit.epochs.unwrap_or(1);
        let mut history = History::default();
        let mut resumed = None;
        self.tell(None, &mut resumed, |callback, cx| callback.on_train_begin(cx))?;
        let goes_on = resumed.is_some();
        if let Some(resumed) = resumed {
            self.resume(resumed)?;
        }
        while self.at.epoch < epochs && !self.stop {
            let epoch = self.at.epoch;
            self.progress.epoch(epoch as u64 + 1, epochs as u64);
            self.tell(None, &mut None, |callback, cx| callback.on_epoch_begin(cx, epoch))?;
            self.epoch()?;
            if self.interrupted {
                return Err(self.give_up()?);
            }
            if self.at.batch == 0 {
                // An epoch without steps has no logs: a loss of 0 would be the best ever.
                if history.epochs().is_empty() && !goes_on {
                    return Err(nothing("train on"));
                }
                break;
            }
            let logs = self.epoch_ended(epoch)?;
            history.push(epoch, logs);
        }
        let last = history.logs().last().cloned().unwrap_or_default();
        self.tell(None, &mut None, |callback, cx| callback.on_train_end(cx, &last))?;
        Ok(history)
    }

    /// Continues from a backup.
    fn resume(&mut self, resumed: ResumeState) -> Result<()> {
        self.at = resumed.at;
        if let Some(position) = resumed.position {
            let position = Position::from_bytes(&position)?;
            self.batches.iterator = Some(self.input.input().iter_from(&position)?);
            self.batches.ended = self.at.batch == 0 && self.fit.steps_per_epoch.is_none();
        }
        Accumulators::resume(&mut self.accumulators, &resumed.words)
    }

    /// Runs the steps of one epoch.
    fn epoch(&mut self) -> Result<()> {
        let wanted = self.fit.steps_per_epoch;
        let mut batches = match self.batches.iterator.take() {
            Some(batches) if !self.batches.ended => batches,
            _ => self.input.input().iter()?,
        };
        self.batches.ended = false;
        while !self.stop && wanted.is_none_or(|wanted| self.at.batch < wanted) {
            let step = batches.next().transpose()?;
            if !self.step(step)? {
                self.batches.ended = true;
                break;
            }
            self.at.batch += 1;
            self.stepped(&batches)?;
        }
        self.batches.iterator = Some(batches);
        if self.batches.ended && (wanted.is_some() || self.at.batch == 0) {
            self.progress.break_line();
            let wanted = wanted.map(|wanted| format!(" of {wanted}")).unwrap_or_default();
            tracing::warn!(
                "training stops: the data ended after {}{wanted} steps of epoch {}; repeat the data, or ask for fewer steps",
                self.at.batch,
                self.at.epoch + 1
            );
            self.stop = true;
        }
        Ok(())
    }

    /// Computes and applies one step. Returns `false` if no worker had data.
    fn step(&mut self, step: Option<Vec<Batch>>) -> Result<bool> {
        let with_data = step.is_some();
        let batches = with_rows(step);
        let rows: usize = batches.local_results().map(Batch::rows).sum();
        let workers = self.compiled.strategy().workers().map_or(1, |workers| workers.size());
        if workers == 1 && rows == 0 {
            return Ok(with_data);
        }
        // A single worker knows the rows of this step. Several divide by the rows of a full step, and the sum of their
        // metadata corrects that.
        let nominal = if workers == 1 { Some(rows) } else { self.input.global_batch() }.unwrap_or(1).max(1) as f32;
        let computed = self.compute(batches, nominal)?;
        let own = StepMetadata::new(rows, with_data, nominal, self.asked, self.interruption().is_some());
        let mut words = own.words();
        // Some workers may take longer to open their input.
        let patient = self.at.batch == 0;
        self.compiled.model.apply(computed, &mut words, patient, |words| StepMetadata::read(words).scale(nominal))?;
        let all = StepMetadata::read(&words);
        all.check(nominal, workers)?;
        self.stop |= all.anybody_stops();
        self.interrupted |= all.interrupted();
        Ok(all.anybody_has_data())
    }

    fn compute(&mut self, batches: crate::PerReplica<Batch>, nominal: f32) -> Result<Vec<ReplicaUpdate>> {
        let compiled = &*self.compiled;
        let plan = StepPlan { mapping: &compiled.mapping, objectives: &compiled.objectives, learning: true };
        let (_, computed) =
            compiled.model.compute(batches.with(&mut self.accumulators), |replica, (batch, accumulators)| {
                let mode = Mode::Training { seed: replica.seed() };
                let outputs = plan.outputs(replica.model(), &batch, replica.device(), mode)?;
                let loss = plan.loss(&batch, outputs, replica.device(), accumulators)?;
                let gradient = replica.gradient(loss / nominal)?;
                replica.apply_gradients(gradient);
                Ok(())
            })?;
        Ok(computed.into_iter().flatten().collect())
    }

    /// Updates the display and calls the callbacks after a step, with this process's logs.
    fn stepped(&mut self, batches: &ReplicaIterator) -> Result<()> {
        if !self.at.batch.is_multiple_of(self.fit.steps_per_execution.max(1)) {
            return Ok(());
        }
        let logs =
            Accumulators::sum(&self.compiled.objectives, &self.accumulators)?.logs(&self.compiled.objectives, "");
        self.progress.update(self.at.batch, &logs.pairs());
        let batch = self.at.batch - 1;
        self.tell(Some(batches), &mut None, |callback, cx| callback.on_train_batch_end(cx, batch, &logs))?;
        if self.compiled.strategy().workers().is_none() {
            self.stop |= self.asked;
        }
        Ok(())
    }

    /// Ends an epoch: validates, calls the callbacks, and returns the logs over all workers.
    fn epoch_ended(&mut self, epoch: usize) -> Result<Logs> {
        let mut logs = self.compiled.together(&self.accumulators)?.logs(&self.compiled.objectives, "");
        self.accumulators.iter_mut().for_each(Accumulators::reset);
        self.compiled.model.average_states()?;
        if self.validation.is_some() && self.fit.is_validated(epoch) {
            self.tell(None, &mut None, |callback, cx| callback.on_test_begin(cx))?;
            let found = self.validation.as_ref().map(|data| self.compiled.validate(data)).transpose()?;
            let found = found.unwrap_or_default();
            found.iter().for_each(|(name, number)| logs.set(name, number));
            self.tell(None, &mut None, |callback, cx| callback.on_test_end(cx, &found))?;
        }
        let steps = self.at.batch;
        self.at = FitPosition { epoch: epoch + 1, batch: 0 };
        self.tell(None, &mut None, |callback, cx| callback.on_epoch_end(cx, epoch, &mut logs))?;
        self.progress.finish(steps, &logs.pairs());
        // All workers have the same logs, so their callbacks decide alike.
        self.stop |= self.asked;
        Ok(logs)
    }

    /// Lets callbacks save after an interruption, and returns its error.
    fn give_up(mut self) -> Result<Error> {
        self.progress.break_line();
        self.tell(None, &mut None, |callback, cx| callback.on_interrupt(cx))?;
        let elsewhere = || {
            Error::new(Code::Terminated, "another worker was asked to stop")
                .because("mirrored workers stop together")
                .help("start the job again: it continues from its last backup")
        };
        Ok(self.interruption().unwrap_or_else(elsewhere))
    }

    /// Returns this process's interruption, if any.
    fn interruption(&self) -> Option<Error> {
        self.compiled.strategy().interrupted().or_else(|| self.fit.interrupt.error())
    }

    /// Calls all callbacks. `running` is the iterator of a pass that is not over.
    fn tell(
        &mut self,
        running: Option<&ReplicaIterator>,
        resumed: &mut Option<ResumeState>,
        mut what: impl FnMut(&mut dyn Callback, &mut FitContext<'_>) -> Result<()>,
    ) -> Result<()> {
        for callback in &mut self.callbacks {
            let mut cx = FitContext {
                model: self.compiled,
                at: self.at,
                batches: running.or(self.batches.iterator.as_ref()),
                accumulators: &self.accumulators,
                asked: &mut self.asked,
                resumed,
            };
            what(callback.as_mut(), &mut cx)?;
        }
        Ok(())
    }
}
