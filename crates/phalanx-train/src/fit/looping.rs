//! The loop of `fit`: epochs, steps, callbacks, progress. What a step is, its [`Executor`] knows.

use super::callbacks::{Callback, FitContext, RunSummaries};
use super::evaluate::nothing;
use super::executor::{Executor, StepEnd, TrainingView, Wish};
use super::progress::{Progress, ProgressMode};
use super::replicas::Replicas;
use super::state::{FitPosition, ResumeState};
use super::{Compiled, Data, Fit, History, Logs};
use phalanx_base::{Code, Error, Result};
use phalanx_nn::Network;
use std::io::{Stdout, stdout};

impl<M: Network> Compiled<M> {
    /// Trains on `data` and returns the logs of every epoch.
    ///
    /// Under parameter servers every task of the job makes the same call and gets the same history. A step is one batch of
    /// one worker, or of a synchronous round. A [`Dataset`](phalanx_data::Dataset) and arrays are divided among the
    /// workers; a [`DatasetCreator`](super::DatasetCreator) creates each worker's share. Without `steps_per_epoch` an
    /// epoch is one pass over the data of all workers. Only the chief calls callbacks; a learning rate that one sets
    /// travels with every later step, and weights that one sets are sent to the servers.
    ///
    /// # Errors
    /// Fails if the data cannot be read or does not fit the model, a worker of a mirrored group is lost, the job of
    /// parameter servers fails, a callback fails, the process is interrupted ([`Fit::interrupt`]), or `TF_CONFIG` names a
    /// cluster that the strategy would ignore.
    pub fn fit(&mut self, data: impl Into<Data>, mut fit: Fit) -> Result<History> {
        crate::logging::init();
        let data = data.into();
        if self.strategy().servers().is_some() {
            return self.fit_on_servers(data, fit);
        }
        self.telling_others(|compiled| {
            let shown = compiled.shown(fit.verbose);
            let (replicas, steps) = Replicas::new(compiled, data, &mut fit)?;
            FitLoop::new(replicas, fit, shown, steps).run()
        })
    }
}

/// A running `fit`.
pub(super) struct FitLoop<E> {
    executor: E,
    fit: Fit,
    callbacks: Vec<Box<dyn Callback>>,
    progress: Progress<Stdout>,
    at: FitPosition,
    /// A callback of this process asked to stop.
    asked: bool,
    /// All workers stop.
    stop: bool,
    interrupted: bool,
    /// The training continues an earlier one.
    goes_on: bool,
}

impl<E: Executor> FitLoop<E> {
    /// Prepares a training; `steps` is the number of steps of an epoch, if that is known.
    pub(super) fn new(executor: E, mut fit: Fit, shown: ProgressMode, steps: Option<u64>) -> Self {
        let mut callbacks = std::mem::take(&mut fit.callbacks);
        callbacks.push(Box::new(RunSummaries::new()));
        Self {
            executor,
            callbacks,
            progress: Progress::new(stdout(), shown, fit.steps_per_epoch.or(steps)),
            at: FitPosition { epoch: fit.initial_epoch, batch: 0 },
            asked: false,
            stop: false,
            interrupted: false,
            goes_on: false,
            fit,
        }
    }

    pub(super) fn run(mut self) -> Result<History> {
        let epochs = self.fit.epochs.unwrap_or(1);
        let mut history = History::default();
        self.begin()?;
        while self.at.epoch < epochs && !self.stop {
            let epoch = self.at.epoch;
            self.progress.epoch(epoch as u64 + 1, epochs as u64);
            self.tell(&mut None, |callback, cx| callback.on_epoch_begin(cx, epoch))?;
            self.epoch()?;
            if self.interrupted {
                return Err(self.give_up()?);
            }
            let sums = self.executor.end_epoch(self.at)?;
            if sums.is_empty() {
                // An epoch without steps has no logs: a loss of 0 would be the best ever.
                if history.epochs().is_empty() && !self.goes_on {
                    return Err(nothing("train on"));
                }
                self.at = FitPosition { epoch: epoch + 1, batch: 0 };
                continue;
            }
            let logs = sums.logs(self.executor.objectives(), "");
            let logs = self.epoch_ended(epoch, logs)?;
            if self.interrupted {
                return Err(self.give_up()?);
            }
            history.push(epoch, logs);
        }
        let last = history.logs().last().cloned().unwrap_or_default();
        self.tell(&mut None, |callback, cx| callback.on_train_end(cx, &last))?;
        Ok(history)
    }

    /// Finds out whether the training continues an earlier one, and from where.
    fn begin(&mut self) -> Result<()> {
        if let Some(at) = self.executor.find_position(self.at)? {
            (self.at, self.goes_on) = (at, true);
        }
        let mut resumed = None;
        self.tell(&mut resumed, |callback, cx| callback.on_train_begin(cx))?;
        if let Some(resumed) = resumed {
            (self.at, self.goes_on) = (resumed.at, true);
            self.executor.resume(resumed)?;
        }
        Ok(())
    }

    /// Runs the steps of one epoch.
    fn epoch(&mut self) -> Result<()> {
        self.executor.begin_epoch(self.at)?;
        loop {
            let interrupted = self.executor.interruption().or_else(|| self.fit.interrupt.error()).is_some();
            match self.executor.step(Wish { stop: self.stop, asked: self.asked, interrupted })? {
                StepEnd::Trained { stop, interrupted } => {
                    self.at.batch += 1;
                    self.stop |= stop;
                    self.interrupted |= interrupted;
                    self.stepped()?;
                }
                StepEnd::DataEnded => {
                    self.data_ended();
                    return Ok(());
                }
                StepEnd::Done => return Ok(()),
                StepEnd::Interrupted => {
                    self.interrupted = true;
                    return Ok(());
                }
            }
        }
    }

    /// Stops the training if the data ended earlier than the settings say.
    fn data_ended(&mut self) {
        let wanted = self.fit.steps_per_epoch;
        if wanted.is_none() && (self.at.batch > 0 || self.goes_on) {
            return;
        }
        self.stop = true;
        self.progress.break_line();
        let wanted = wanted.map(|wanted| format!(" of {wanted}")).unwrap_or_default();
        let (done, epoch) = (self.at.batch, self.at.epoch + 1);
        self.executor.in_scope(&mut || {
            tracing::warn!(
                "training stops: the data ended after {done}{wanted} steps of epoch {epoch}; repeat the data, or ask for \
                 fewer steps"
            );
        });
    }

    /// Updates the display and calls the callbacks after a step.
    fn stepped(&mut self) -> Result<()> {
        if !self.at.batch.is_multiple_of(self.fit.steps_per_execution.max(1)) {
            return Ok(());
        }
        let logs = self.executor.sums()?.logs(self.executor.objectives(), "");
        self.progress.update(self.at.batch, &logs.pairs());
        let batch = self.at.batch - 1;
        self.tell(&mut None, |callback, cx| callback.on_train_batch_end(cx, batch, &logs))?;
        self.stop |= self.asked && self.executor.decides();
        Ok(())
    }

    /// Ends an epoch: validates, calls the callbacks, and returns the complete logs.
    fn epoch_ended(&mut self, epoch: usize, mut logs: Logs) -> Result<Logs> {
        if self.executor.validates() && self.fit.is_validated(epoch) {
            match self.validate(&mut logs) {
                Err(_) if self.executor.interruption().is_some() => {
                    self.interrupted = true;
                    return Ok(logs);
                }
                validated => validated?,
            }
        }
        let steps = self.at.batch;
        self.at = FitPosition { epoch: epoch + 1, batch: 0 };
        self.tell(&mut None, |callback, cx| callback.on_epoch_end(cx, epoch, &mut logs))?;
        self.progress.finish(steps, &logs.pairs());
        // All workers have the same logs, so their callbacks decide alike.
        self.stop |= self.asked;
        Ok(logs)
    }

    fn validate(&mut self, logs: &mut Logs) -> Result<()> {
        self.tell(&mut None, |callback, cx| callback.on_test_begin(cx))?;
        let found = self.executor.validate()?.logs(self.executor.objectives(), "val_");
        found.iter().for_each(|(name, number)| logs.set(name, number));
        self.tell(&mut None, |callback, cx| callback.on_test_end(cx, &found))
    }

    /// Lets callbacks save after an interruption, and returns its error.
    fn give_up(mut self) -> Result<Error> {
        self.progress.break_line();
        self.tell(&mut None, |callback, cx| callback.on_interrupt(cx))?;
        self.executor.give_up()?;
        Ok(self.executor.interruption().or_else(|| self.fit.interrupt.error()).unwrap_or_else(elsewhere))
    }

    /// Calls all callbacks.
    fn tell(
        &mut self,
        resumed: &mut Option<ResumeState>,
        mut what: impl FnMut(&mut dyn Callback, &mut FitContext<'_>) -> Result<()>,
    ) -> Result<()> {
        let Self { executor, callbacks, at, asked, .. } = self;
        executor.show(&mut |TrainingView { model, batches, accumulators }| {
            callbacks.iter_mut().try_for_each(|callback| {
                let (at, asked, resumed) = (*at, &mut *asked, &mut *resumed);
                let mut cx = FitContext { model: &mut *model, at, batches, accumulators, asked, resumed };
                what(callback.as_mut(), &mut cx)
            })
        })
    }
}

fn elsewhere() -> Error {
    Error::new(Code::Terminated, "another worker was asked to stop")
        .because("mirrored workers stop together")
        .help("start the job again: it continues from its last backup")
}
