//! `fit`: epochs, steps, and who is told about them.

use super::callbacks::{Callback, FitContext};
use super::evaluate::{Validation, nothing};
use super::header::Header;
use super::progress::Progress;
use super::state::{Place, Resumed};
use super::step::Plan;
use super::tally::Tally;
use super::{Compiled, Data, Fit, History, Logs};
use crate::strategy::{Computed, DistributedDataset, with_rows};
use phalanx_base::{Code, Error, Result};
use phalanx_data::{Batch, DistributedIter, Position};
use phalanx_nn::Network;
use phalanx_nn::model::Mode;
use std::io::{Stdout, stdout};

/// One `fit` under way.
struct Fitting<'a, M> {
    compiled: &'a mut Compiled<M>,
    input: DistributedDataset,
    validation: Option<Validation>,
    fit: Fit,
    callbacks: Vec<Box<dyn Callback>>,
    progress: Progress<Stdout>,
    tallies: Vec<Tally>,
    batches: Batches,
    place: Place,
    /// This process wants to stop after the step.
    asked: bool,
    /// All workers stop.
    stop: bool,
    /// Somebody asked one of the workers to stop, from outside.
    interrupted: bool,
}

/// Where the data is: before a pass, in one, or behind it.
#[derive(Default)]
struct Batches {
    iterator: Option<DistributedIter>,
    ended: bool,
}

impl<M: Network> Compiled<M> {
    /// Trains on `data`. Returns what every epoch came to.
    ///
    /// # Errors
    /// When the data cannot be read or does not fit the model, a worker is lost, a callback fails, or somebody asks the
    /// process to stop ([`Fit::interrupt`]). Also when `TF_CONFIG` names a cluster that the strategy would ignore.
    pub fn fit(&mut self, data: impl Into<Data>, fit: Fit) -> Result<History> {
        let data = data.into();
        self.telling_others(|compiled| Fitting::new(compiled, data, fit)?.run())
    }
}

impl<'a, M: Network> Fitting<'a, M> {
    fn new(compiled: &'a mut Compiled<M>, data: Data, mut fit: Fit) -> Result<Self> {
        compiled.strategy().check_cluster()?;
        let (data, validation) = compiled.take_data(data, &mut fit)?;
        let batched = data.batched(fit.batch_size, (!fit.in_order).then_some(fit.seed))?;
        let target = fit.steps_per_epoch.or(batched.steps);
        let batched = if fit.steps_per_epoch.is_some() { batched.repeated() } else { batched };
        let input = compiled.strategy().distribute_dataset(&batched.dataset)?;
        let validation = validation
            .map(|data| {
                // The batch size is that of arrays, and the training's may be some where these are none.
                let size = fit.batch_size.filter(|_| data.is_rows());
                compiled.validation(data.batched(size, None)?, fit.validation_steps)
            })
            .transpose()?;
        compiled.resolve(&input)?;
        let shown = compiled.shown(fit.verbose);
        let tallies = (0..compiled.strategy().local_replicas()).map(|_| Tally::new(&compiled.aims)).collect();
        Ok(Self {
            input,
            validation,
            callbacks: std::mem::take(&mut fit.callbacks),
            progress: Progress::new(stdout(), shown, target),
            tallies,
            batches: Batches::default(),
            place: Place { epoch: fit.initial_epoch, batch: 0 },
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
        self.tell(&mut resumed, |callback, cx| callback.on_train_begin(cx))?;
        let goes_on = resumed.is_some();
        if let Some(resumed) = resumed {
            self.resume(resumed)?;
        }
        while self.place.epoch < epochs && !self.stop {
            let epoch = self.place.epoch;
            self.progress.epoch(epoch as u64 + 1, epochs as u64);
            self.tell(&mut None, |callback, cx| callback.on_epoch_begin(cx, epoch))?;
            self.epoch()?;
            if self.interrupted {
                return Err(self.give_up()?);
            }
            if self.place.batch == 0 {
                // No step, no numbers: 0 would be the best loss ever.
                if history.epochs().is_empty() && !goes_on {
                    return Err(nothing("train on"));
                }
                break;
            }
            let logs = self.epoch_ended(epoch)?;
            history.push(epoch, logs);
        }
        let last = history.logs().last().cloned().unwrap_or_default();
        self.tell(&mut None, |callback, cx| callback.on_train_end(cx, &last))?;
        Ok(history)
    }

    /// Goes on where an earlier process stopped.
    fn resume(&mut self, resumed: Resumed) -> Result<()> {
        self.place = resumed.place;
        if let Some(position) = resumed.position {
            let position = Position::from_bytes(&position)?;
            self.batches.iterator = Some(self.input.input().iter_from(&position)?);
            self.batches.ended = self.place.batch == 0 && self.fit.steps_per_epoch.is_none();
        }
        Tally::resume(&mut self.tallies, &resumed.words)
    }

    /// The steps of one epoch.
    fn epoch(&mut self) -> Result<()> {
        let wanted = self.fit.steps_per_epoch;
        let mut batches = match self.batches.iterator.take() {
            Some(batches) if !self.batches.ended => batches,
            _ => self.input.input().iter()?,
        };
        self.batches.ended = false;
        while !self.stop && wanted.is_none_or(|wanted| self.place.batch < wanted) {
            let step = batches.next().transpose()?;
            if !self.step(step)? {
                self.batches.ended = true;
                break;
            }
            self.place.batch += 1;
            self.stepped(&batches)?;
        }
        self.batches.iterator = Some(batches);
        if self.batches.ended && (wanted.is_some() || self.place.batch == 0) {
            self.progress.break_line();
            let wanted = wanted.map(|wanted| format!(" of {wanted}")).unwrap_or_default();
            eprintln!(
                "the data ended after {}{wanted} steps of epoch {}, and training ends with it: repeat the data, or ask \
                 for fewer steps",
                self.place.batch,
                self.place.epoch + 1
            );
            self.stop = true;
        }
        Ok(())
    }

    /// Computes and applies one step; `false` when nobody had data.
    fn step(&mut self, step: Option<Vec<Batch>>) -> Result<bool> {
        let with_data = step.is_some();
        let batches = with_rows(step);
        let rows: usize = batches.local_results().map(Batch::rows).sum();
        let workers = self.compiled.strategy().workers().map_or(1, |workers| workers.size());
        if workers == 1 && rows == 0 {
            return Ok(with_data);
        }
        // Alone, the rows of this step are known. With others it is what a whole step has, corrected when all have
        // counted.
        let nominal = if workers == 1 { Some(rows) } else { self.input.global_batch() }.unwrap_or(1).max(1) as f32;
        let computed = self.compute(batches, nominal)?;
        let own = Header::new(rows, with_data, nominal, self.asked, self.interruption().is_some());
        let mut words = own.words();
        // A pass may take some workers longer to begin than others.
        let patient = self.place.batch == 0;
        self.compiled.model.apply(computed, &mut words, patient, |words| Header::read(words).scale(nominal))?;
        let all = Header::read(&words);
        all.check(nominal, workers)?;
        self.stop |= all.anybody_stops();
        self.interrupted |= all.interrupted();
        Ok(all.anybody_has_data())
    }

    fn compute(&mut self, batches: crate::PerReplica<Batch>, nominal: f32) -> Result<Vec<Computed>> {
        let compiled = &*self.compiled;
        let plan = Plan { feed: &compiled.feed, aims: &compiled.aims, learning: true };
        let (_, computed) = compiled.model.compute(batches.with(&mut self.tallies), |replica, (batch, tally)| {
            let mode = Mode::Training { seed: replica.seed() };
            let outputs = plan.outputs(replica.model(), &batch, replica.device(), mode)?;
            let loss = plan.loss(&batch, outputs, replica.device(), tally)?;
            let gradient = replica.gradient(loss / nominal)?;
            replica.apply_gradients(gradient);
            Ok(())
        })?;
        Ok(computed.into_iter().flatten().collect())
    }

    /// After a step: the display and the callbacks, with what this process has counted so far.
    fn stepped(&mut self, batches: &DistributedIter) -> Result<()> {
        if !self.place.batch.is_multiple_of(self.fit.steps_per_execution.max(1)) {
            return Ok(());
        }
        let logs = Tally::sum(&self.compiled.aims, &self.tallies)?.logs(&self.compiled.aims, "");
        self.progress.update(self.place.batch, &logs.pairs());
        for callback in &mut self.callbacks {
            let (tallies, asked, mut none) = (&self.tallies, &mut self.asked, None);
            let mut cx = FitContext::new(self.compiled, self.place, Some(batches), tallies, asked, &mut none);
            callback.on_train_batch_end(&mut cx, self.place.batch - 1, &logs)?;
        }
        if self.compiled.strategy().workers().is_none() {
            // Nobody to agree with.
            self.stop |= self.asked;
        }
        Ok(())
    }

    /// What the epoch came to, over all workers, and the validation.
    fn epoch_ended(&mut self, epoch: usize) -> Result<Logs> {
        let mut logs = self.compiled.together(&self.tallies)?.logs(&self.compiled.aims, "");
        self.tallies.iter_mut().for_each(Tally::reset);
        self.compiled.model.average_states()?;
        if self.validation.is_some() && self.fit.is_validated(epoch) {
            self.tell(&mut None, |callback, cx| callback.on_test_begin(cx))?;
            let found = self.validation.as_ref().map(|data| self.compiled.validate(data)).transpose()?;
            let found = found.unwrap_or_default();
            found.iter().for_each(|(name, number)| logs.set(name, number));
            self.tell(&mut None, |callback, cx| callback.on_test_end(cx, &found))?;
        }
        let steps = self.place.batch;
        self.place = Place { epoch: epoch + 1, batch: 0 };
        self.tell(&mut None, |callback, cx| callback.on_epoch_end(cx, epoch, &mut logs))?;
        self.progress.finish(steps, &logs.pairs());
        // All workers have the same numbers, and callbacks that go by them come to the same decision.
        self.stop |= self.asked;
        Ok(logs)
    }

    /// Ends in good order because somebody asked from outside: those callbacks that keep things do so now. Why it ended.
    fn give_up(mut self) -> Result<Error> {
        self.progress.break_line();
        self.tell(&mut None, |callback, cx| callback.on_interrupt(cx))?;
        let elsewhere = || {
            Error::new(Code::Terminated, "another worker was asked to stop")
                .because("mirrored workers stop together")
                .help("start the job again: it goes on where it was saved")
        };
        Ok(self.interruption().unwrap_or_else(elsewhere))
    }

    /// The request to stop, if somebody made one of this process.
    fn interruption(&self) -> Option<Error> {
        self.compiled.strategy().interrupted().or_else(|| self.fit.interrupt.error())
    }

    fn tell(
        &mut self,
        resumed: &mut Option<Resumed>,
        mut what: impl FnMut(&mut dyn Callback, &mut FitContext<'_>) -> Result<()>,
    ) -> Result<()> {
        for callback in &mut self.callbacks {
            let (batches, asked) = (self.batches.iterator.as_ref(), &mut self.asked);
            let mut cx = FitContext::new(self.compiled, self.place, batches, &self.tallies, asked, resumed);
            what(callback.as_mut(), &mut cx)?;
        }
        Ok(())
    }
}
