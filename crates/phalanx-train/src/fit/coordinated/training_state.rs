//! The chief's loop of a `fit`: it schedules steps, sums their accumulators, and calls the callbacks.

use super::steps::{StepReport, TRAIN, TrainArguments, VALIDATE};
use super::trained_state::OnServers;
use super::worker_progress::WorkerProgress;
use crate::fit::accumulators::Accumulators;
use crate::fit::callbacks::{Callback, FitContext};
use crate::fit::evaluate::nothing;
use crate::fit::progress::Progress;
use crate::fit::state::FitPosition;
use crate::fit::{Compiled, Fit, History, Logs};
use crate::{Coordinator, RemoteValue};
use phalanx_base::{Error, Result};
use phalanx_nn::Network;
use std::collections::VecDeque;
use std::io::{Stdout, stdout};
use std::time::Duration;

/// Steps scheduled ahead for each worker: enough that none waits, few enough that a `fit` can stop soon.
const AHEAD: usize = 8;
/// How long the chief waits for a result before it checks the job's state.
const LOOK: Duration = Duration::from_millis(100);

/// The settings of a run.
pub(super) struct RunSettings {
    pub(super) fit: Fit,
    /// The batches of an epoch, if epochs are passes and the number is known.
    pub(super) batches: Option<u64>,
    /// Whether there is validation data.
    pub(super) validated: bool,
    /// Steps per update.
    pub(super) round: u64,
}

/// The state of a running `fit`.
pub(super) struct TrainingState<'a, M> {
    compiled: &'a mut Compiled<M>,
    coordinator: &'a mut Coordinator<M>,
    settings: RunSettings,
    workers: WorkerProgress,
    callbacks: Vec<Box<dyn Callback>>,
    progress: Progress<Stdout>,
    accumulators: Accumulators,
    at: FitPosition,
    /// The updates before this epoch.
    before: u64,
    /// The learning rate that the servers were created with.
    rate: f32,
    /// Whether the chief's values are the newest.
    fresh: bool,
    asked: bool,
    stop: bool,
}

impl<'a, M: Network> TrainingState<'a, M> {
    pub(super) fn new(
        compiled: &'a mut Compiled<M>,
        coordinator: &'a mut Coordinator<M>,
        mut settings: RunSettings,
    ) -> Result<Self> {
        let workers = WorkerProgress::of(coordinator)?;
        let target = settings.fit.steps_per_epoch.or(settings.batches);
        let progress = Progress::new(stdout(), compiled.shown(settings.fit.verbose), target);
        Ok(Self {
            workers,
            callbacks: std::mem::take(&mut settings.fit.callbacks),
            progress,
            accumulators: Accumulators::new(&compiled.objectives),
            at: FitPosition { epoch: settings.fit.initial_epoch, batch: 0 },
            before: 0,
            rate: compiled.optimizer().map_or(0.0, |optimizer| optimizer.learning_rate()),
            fresh: false,
            asked: false,
            stop: false,
            compiled,
            coordinator,
            settings,
        })
    }

    pub(super) fn run(mut self) -> Result<History> {
        let trained = self.train();
        if trained.is_err() && self.interrupted().is_some() {
            self.give_up();
        }
        trained
    }

    fn train(&mut self) -> Result<History> {
        let epochs = self.settings.fit.epochs.unwrap_or(1);
        let goes_on = self.find_place()?;
        let mut history = History::default();
        self.tell(|callback, cx| callback.on_train_begin(cx))?;
        while self.at.epoch < epochs && !self.stop {
            let epoch = self.at.epoch;
            self.progress.epoch(epoch as u64 + 1, epochs as u64);
            self.tell(|callback, cx| callback.on_epoch_begin(cx, epoch))?;
            if self.epoch()? == 0 {
                // An epoch without steps has no logs: a loss of 0 would be the best ever.
                if !goes_on && history.epochs().is_empty() {
                    return Err(nothing("train on"));
                }
                // The pass was complete before the chief restarted.
                self.at = FitPosition { epoch: epoch + 1, batch: 0 };
                continue;
            }
            let logs = self.epoch_ended(epoch)?;
            history.push(epoch, logs);
        }
        let last = history.logs().last().cloned().unwrap_or_default();
        self.tell(|callback, cx| callback.on_train_end(cx, &last))?;
        self.values()?;
        Ok(history)
    }

    /// Finds the position of a restarted chief from the servers' count of updates. Returns whether it was restarted.
    fn find_place(&mut self) -> Result<bool> {
        self.values()?;
        let done = self.before;
        if let Some(steps) = self.settings.fit.steps_per_epoch.filter(|_| done > 0) {
            let updates = steps.div_ceil(self.settings.round).max(1);
            self.at.epoch += usize::try_from(done / updates).unwrap_or(usize::MAX);
            self.at.batch = (done % updates * self.settings.round).min(steps);
            self.before -= done % updates;
        }
        if done > 0 {
            let place = match self.settings.fit.steps_per_epoch {
                Some(_) => format!(": epoch {}, after {} steps", self.at.epoch + 1, self.at.batch),
                None => String::new(),
            };
            self.say(&format!("going on after {done} updates{place}"))?;
        }
        Ok(done > 0)
    }

    /// Runs the steps of one epoch and returns their number.
    fn epoch(&mut self) -> Result<u64> {
        let before = self.at.batch;
        let mut scheduled = VecDeque::new();
        self.workers.begin();
        let ahead = AHEAD * (self.workers.size() + 1);
        let mut over = false;
        loop {
            if let Some(error) = self.interrupted() {
                return Err(error);
            }
            while scheduled.len() < ahead && !over && !self.stop && self.wants(scheduled.len() as u64) {
                scheduled.push_back(self.coordinator.schedule(TRAIN, &self.order().arguments())?);
            }
            let Some(step) = scheduled.pop_front() else { break };
            let told = StepReport::read(&self.wait_for(&step)?)?;
            self.fresh = false;
            match told.words {
                Some(words) => self.stepped(&words)?,
                None => {
                    self.workers.has_ended(told.task);
                    over = self.workers.all_ended(self.coordinator)?;
                }
            }
            if over || self.stop {
                // Cancel what no worker has started; the rest completes.
                scheduled.retain(|step: &RemoteValue| !step.cancel());
            }
        }
        self.coordinator.join()?;
        if over {
            self.say_what_ended()?;
        }
        Ok(self.at.batch - before)
    }

    /// Returns whether another step should be scheduled after `scheduled` pending ones.
    fn wants(&self, scheduled: u64) -> bool {
        let target = self.settings.fit.steps_per_epoch.or(self.settings.batches);
        target.is_none_or(|target| self.at.batch + scheduled < target)
    }

    fn order(&self) -> TrainArguments {
        let rate = self.compiled.optimizer().map_or(self.rate, |optimizer| optimizer.learning_rate());
        let pass = self.settings.fit.steps_per_epoch.is_none().then_some(self.at.epoch as u64);
        TrainArguments { pass, learning_rate: (rate != self.rate).then_some(rate) }
    }

    /// Logs if the data ended earlier than expected.
    fn say_what_ended(&mut self) -> Result<()> {
        let (epoch, done) = (self.at.epoch + 1, self.at.batch);
        if let Some(wanted) = self.settings.fit.steps_per_epoch.filter(|wanted| done < *wanted) {
            self.stop = true;
            return self.say(&format!(
                "the data ended after {done} of {wanted} steps of epoch {epoch}, and training ends with it: repeat the \
                 data, or ask for fewer steps"
            ));
        }
        let behind = self.workers.behind();
        if behind.is_empty() || done == 0 {
            return Ok(());
        }
        self.say(&format!(
            "epoch {epoch} ends without all of the data: the share of {} was not read to its end",
            behind.join(", ")
        ))
    }

    /// Updates the display and calls the callbacks after a step, with the logs of all workers.
    fn stepped(&mut self, words: &[f64]) -> Result<()> {
        self.accumulators.merge(words)?;
        self.at.batch += 1;
        self.count(self.before + self.at.batch / self.settings.round);
        if !self.at.batch.is_multiple_of(self.settings.fit.steps_per_execution.max(1)) {
            return Ok(());
        }
        let logs = self.accumulators.logs(&self.compiled.objectives, "");
        self.progress.update(self.at.batch, &logs.pairs());
        let batch = self.at.batch - 1;
        self.tell(|callback, cx| callback.on_train_batch_end(cx, batch, &logs))?;
        self.stop |= self.asked;
        Ok(())
    }

    /// Ends an epoch: validates, calls the callbacks, and returns the logs.
    fn epoch_ended(&mut self, epoch: usize) -> Result<Logs> {
        let mut logs = self.accumulators.logs(&self.compiled.objectives, "");
        self.accumulators.reset();
        self.values()?;
        if self.settings.validated && self.settings.fit.is_validated(epoch) {
            self.tell(|callback, cx| callback.on_test_begin(cx))?;
            let found = self.evaluate()?.logs(&self.compiled.objectives, "val_");
            found.iter().for_each(|(name, number)| logs.set(name, number));
            self.tell(|callback, cx| callback.on_test_end(cx, &found))?;
        }
        let steps = self.at.batch;
        self.at = FitPosition { epoch: epoch + 1, batch: 0 };
        self.tell(|callback, cx| callback.on_epoch_end(cx, epoch, &mut logs))?;
        self.progress.finish(steps, &logs.pairs());
        self.stop |= self.asked;
        Ok(logs)
    }

    /// Evaluates the validation data in parts. Free workers take the next part; every example counts once, even if
    /// workers are lost.
    pub(super) fn evaluate(&mut self) -> Result<Accumulators> {
        let parts = 5 * self.workers.size().max(1);
        let part = |part: usize| self.coordinator.schedule(VALIDATE, &[part as f64, parts as f64]);
        let scheduled = (0..parts).map(part).collect::<Result<Vec<_>>>()?;
        let mut accumulators = Accumulators::new(&self.compiled.objectives);
        for part in &scheduled {
            let words = self.wait_for(part)?;
            accumulators.merge(&words)?;
        }
        if accumulators.is_empty() { Err(nothing("evaluate on")) } else { Ok(accumulators) }
    }

    /// Waits for a step. If it failed, waits for all of them and returns the first error.
    fn wait_for(&mut self, step: &RemoteValue) -> Result<Vec<f64>> {
        loop {
            let done = step.fetch_within(LOOK);
            if step.is_done() {
                return done.or_else(|error| self.coordinator.join().and(Err(error)));
            }
            let job = self.coordinator.session_mut()?.server().job();
            if let Some(error) = job.failure().or_else(|| self.interrupted()) {
                return Err(error);
            }
        }
    }

    /// Fetches the newest values and the count of updates from the servers.
    fn values(&mut self) -> Result<()> {
        self.before = self.coordinator.global_step()?;
        self.fresh = false;
        OnServers { compiled: self.compiled, coordinator: self.coordinator, fresh: &mut self.fresh }.fetch()?;
        self.count(self.before);
        Ok(())
    }

    fn count(&mut self, updates: u64) {
        if let Some(update) = &mut self.compiled.model.update {
            update.iterations = updates;
        }
    }

    fn interrupted(&mut self) -> Option<Error> {
        let session = self.coordinator.session_mut().ok();
        let job = session.and_then(|session| session.server().job().interrupted());
        job.or_else(|| self.settings.fit.interrupt.error())
    }

    /// Lets callbacks and servers save after an interruption. Their errors are logged, since the interruption itself is
    /// returned.
    fn give_up(&mut self) {
        self.progress.break_line();
        let told = self.tell(|callback, cx| callback.on_interrupt(cx));
        let saved = self.coordinator.session_mut().and_then(crate::Session::save_last);
        for error in [told.err(), saved.err()].into_iter().flatten() {
            let _ = self.say(&error.to_string());
        }
    }

    fn say(&mut self, line: &str) -> Result<()> {
        self.progress.break_line();
        self.coordinator.session_mut()?.server().in_scope(|| tracing::info!("{line}"));
        Ok(())
    }

    fn tell(&mut self, mut what: impl FnMut(&mut dyn Callback, &mut FitContext<'_>) -> Result<()>) -> Result<()> {
        for callback in &mut self.callbacks {
            let (compiled, coordinator) = (&mut *self.compiled, &mut *self.coordinator);
            let mut servers = OnServers { compiled, coordinator, fresh: &mut self.fresh };
            let mut cx = FitContext {
                model: &mut servers,
                at: self.at,
                batches: None,
                accumulators: std::slice::from_ref(&self.accumulators),
                asked: &mut self.asked,
                resumed: &mut None,
            };
            what(callback.as_mut(), &mut cx)?;
        }
        Ok(())
    }
}
