//! The chief of a `fit`: it schedules steps, adds up what they counted, and tells the callbacks.

use super::crew::Crew;
use super::fitted::OnServers;
use super::steps::{Order, TRAIN, Told, VALIDATE};
use crate::fit::callbacks::{Callback, FitContext};
use crate::fit::evaluate::nothing;
use crate::fit::progress::Progress;
use crate::fit::state::Place;
use crate::fit::tally::Tally;
use crate::fit::{Compiled, Fit, History, Logs};
use crate::{Coordinator, RemoteValue};
use phalanx_base::{Error, Result};
use phalanx_nn::Network;
use std::collections::VecDeque;
use std::io::{Stdout, stdout};
use std::time::Duration;

/// Steps for each worker that are scheduled ahead: enough that none waits, few enough that a `fit` can stop.
const AHEAD: usize = 8;
/// How long a result is waited for before the chief looks whether the job goes on.
const LOOK: Duration = Duration::from_millis(100);

/// What is known before a `fit` begins.
pub(super) struct Course {
    pub(super) fit: Fit,
    /// The batches of a pass, where epochs are passes and that is known.
    pub(super) batches: Option<u64>,
    /// Whether there is something to validate on.
    pub(super) validated: bool,
    /// How many steps make an update.
    pub(super) round: u64,
}

/// One `fit` under way.
pub(super) struct Fitting<'a, M> {
    compiled: &'a mut Compiled<M>,
    coordinator: &'a mut Coordinator<M>,
    course: Course,
    crew: Crew,
    callbacks: Vec<Box<dyn Callback>>,
    progress: Progress<Stdout>,
    tally: Tally,
    place: Place,
    /// The updates before this epoch, and the learning rate that the servers have.
    before: u64,
    rate: f32,
    /// Whether the chief's values are the newest.
    fresh: bool,
    asked: bool,
    stop: bool,
}

impl<'a, M: Network> Fitting<'a, M> {
    pub(super) fn new(
        compiled: &'a mut Compiled<M>,
        coordinator: &'a mut Coordinator<M>,
        mut course: Course,
    ) -> Result<Self> {
        let crew = Crew::of(coordinator)?;
        let target = course.fit.steps_per_epoch.or(course.batches);
        let progress = Progress::new(stdout(), compiled.shown(course.fit.verbose), target);
        Ok(Self {
            crew,
            callbacks: std::mem::take(&mut course.fit.callbacks),
            progress,
            tally: Tally::new(&compiled.aims),
            place: Place { epoch: course.fit.initial_epoch, batch: 0 },
            before: 0,
            rate: compiled.optimizer().map_or(0.0, |optimizer| optimizer.learning_rate()),
            fresh: false,
            asked: false,
            stop: false,
            compiled,
            coordinator,
            course,
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
        let epochs = self.course.fit.epochs.unwrap_or(1);
        let goes_on = self.find_place()?;
        let mut history = History::default();
        self.tell(|callback, cx| callback.on_train_begin(cx))?;
        while self.place.epoch < epochs && !self.stop {
            let epoch = self.place.epoch;
            self.progress.epoch(epoch as u64 + 1, epochs as u64);
            self.tell(|callback, cx| callback.on_epoch_begin(cx, epoch))?;
            if self.epoch()? == 0 {
                // No step, no numbers: 0 would be the best loss ever.
                if !goes_on && history.epochs().is_empty() {
                    return Err(nothing("train on"));
                }
                // A pass that was done before the chief was started again.
                self.place = Place { epoch: epoch + 1, batch: 0 };
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

    /// Where a chief that was started again goes on: what the servers have counted says it. Whether it was.
    fn find_place(&mut self) -> Result<bool> {
        self.values()?;
        let done = self.before;
        if let Some(steps) = self.course.fit.steps_per_epoch.filter(|_| done > 0) {
            let updates = steps.div_ceil(self.course.round).max(1);
            self.place.epoch += usize::try_from(done / updates).unwrap_or(usize::MAX);
            self.place.batch = (done % updates * self.course.round).min(steps);
            self.before -= done % updates;
        }
        if done > 0 {
            let place = match self.course.fit.steps_per_epoch {
                Some(_) => format!(": epoch {}, after {} steps", self.place.epoch + 1, self.place.batch),
                None => String::new(),
            };
            self.say(&format!("going on after {done} updates{place}"))?;
        }
        Ok(done > 0)
    }

    /// The steps of one epoch, and how many there were.
    fn epoch(&mut self) -> Result<u64> {
        let before = self.place.batch;
        let mut scheduled = VecDeque::new();
        self.crew.begin();
        let ahead = AHEAD * (self.crew.size() + 1);
        let mut over = false;
        loop {
            if let Some(error) = self.interrupted() {
                return Err(error);
            }
            while scheduled.len() < ahead && !over && !self.stop && self.wants(scheduled.len() as u64) {
                scheduled.push_back(self.coordinator.schedule(TRAIN, &self.order().arguments())?);
            }
            let Some(step) = scheduled.pop_front() else { break };
            let told = Told::read(&self.wait_for(&step)?)?;
            self.fresh = false;
            match told.words {
                Some(words) => self.stepped(&words)?,
                None => {
                    self.crew.has_ended(told.task);
                    over = self.crew.all_ended(self.coordinator)?;
                }
            }
            if over || self.stop {
                // What nobody has begun need not be done; the rest comes to its end.
                scheduled.retain(|step: &RemoteValue| !step.cancel());
            }
        }
        self.coordinator.join()?;
        if over {
            self.say_what_ended()?;
        }
        Ok(self.place.batch - before)
    }

    /// Whether another step should be scheduled beside those that are.
    fn wants(&self, scheduled: u64) -> bool {
        let target = self.course.fit.steps_per_epoch.or(self.course.batches);
        target.is_none_or(|target| self.place.batch + scheduled < target)
    }

    fn order(&self) -> Order {
        let rate = self.compiled.optimizer().map_or(self.rate, |optimizer| optimizer.learning_rate());
        let pass = self.course.fit.steps_per_epoch.is_none().then_some(self.place.epoch as u64);
        Order { pass, learning_rate: (rate != self.rate).then_some(rate) }
    }

    /// The data of all who are here has ended: was that to be expected?
    fn say_what_ended(&mut self) -> Result<()> {
        let (epoch, done) = (self.place.epoch + 1, self.place.batch);
        if let Some(wanted) = self.course.fit.steps_per_epoch.filter(|wanted| done < *wanted) {
            self.stop = true;
            return self.say(&format!(
                "the data ended after {done} of {wanted} steps of epoch {epoch}, and training ends with it: repeat the \
                 data, or ask for fewer steps"
            ));
        }
        let behind = self.crew.behind();
        if behind.is_empty() || done == 0 {
            return Ok(());
        }
        self.say(&format!(
            "epoch {epoch} ends without all of the data: the share of {} was not read to its end",
            behind.join(", ")
        ))
    }

    /// After a step: the display and the callbacks, with what all workers have counted so far.
    fn stepped(&mut self, words: &[f64]) -> Result<()> {
        self.tally.merge(words)?;
        self.place.batch += 1;
        self.count(self.before + self.place.batch / self.course.round);
        if !self.place.batch.is_multiple_of(self.course.fit.steps_per_execution.max(1)) {
            return Ok(());
        }
        let logs = self.tally.logs(&self.compiled.aims, "");
        self.progress.update(self.place.batch, &logs.pairs());
        let batch = self.place.batch - 1;
        self.tell(|callback, cx| callback.on_train_batch_end(cx, batch, &logs))?;
        self.stop |= self.asked;
        Ok(())
    }

    /// What the epoch came to, and the validation.
    fn epoch_ended(&mut self, epoch: usize) -> Result<Logs> {
        let mut logs = self.tally.logs(&self.compiled.aims, "");
        self.tally.reset();
        self.values()?;
        if self.course.validated && self.course.fit.is_validated(epoch) {
            self.tell(|callback, cx| callback.on_test_begin(cx))?;
            let found = self.evaluate()?.logs(&self.compiled.aims, "val_");
            found.iter().for_each(|(name, number)| logs.set(name, number));
            self.tell(|callback, cx| callback.on_test_end(cx, &found))?;
        }
        let steps = self.place.batch;
        self.place = Place { epoch: epoch + 1, batch: 0 };
        self.tell(|callback, cx| callback.on_epoch_end(cx, epoch, &mut logs))?;
        self.progress.finish(steps, &logs.pairs());
        self.stop |= self.asked;
        Ok(logs)
    }

    /// What is held out, in parts: whoever is free takes the next one, and every example counts once, whoever is lost.
    pub(super) fn evaluate(&mut self) -> Result<Tally> {
        let parts = 5 * self.crew.size().max(1);
        let part = |part: usize| self.coordinator.schedule(VALIDATE, &[part as f64, parts as f64]);
        let scheduled = (0..parts).map(part).collect::<Result<Vec<_>>>()?;
        let mut tally = Tally::new(&self.compiled.aims);
        for part in &scheduled {
            let words = self.wait_for(part)?;
            tally.merge(&words)?;
        }
        if tally.is_empty() { Err(nothing("evaluate on")) } else { Ok(tally) }
    }

    /// Waits for a step; where it failed, for all of them, and says what the first one failed with.
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

    /// Takes the newest values of the servers, and their count of updates.
    fn values(&mut self) -> Result<()> {
        self.before = self.coordinator.global_step()?;
        self.fresh = false;
        OnServers { compiled: self.compiled, coordinator: self.coordinator, fresh: &mut self.fresh }.fetch()?;
        self.count(self.before);
        Ok(())
    }

    fn count(&mut self, updates: u64) {
        if let Some(update) = &mut self.compiled.model.update {
            update.set_iterations(updates);
        }
    }

    fn interrupted(&mut self) -> Option<Error> {
        let session = self.coordinator.session_mut().ok();
        let job = session.and_then(|session| session.server().job().interrupted());
        job.or_else(|| self.course.fit.interrupt.error())
    }

    /// Ends in good order because somebody asked from outside: those callbacks that keep things do so now, and the servers
    /// save. What goes wrong meanwhile is said, since the interruption is what is returned.
    fn give_up(&mut self) {
        self.progress.break_line();
        let told = self.tell(|callback, cx| callback.on_interrupt(cx));
        let saved = self.coordinator.session_mut().and_then(crate::Session::save_last);
        for error in [told.err(), saved.err()].into_iter().flatten() {
            // Nobody is left to tell where this fails, too.
            let _ = self.say(&error.to_string());
        }
    }

    fn say(&mut self, line: &str) -> Result<()> {
        self.progress.break_line();
        self.coordinator.session_mut()?.server().say(line);
        Ok(())
    }

    fn tell(&mut self, mut what: impl FnMut(&mut dyn Callback, &mut FitContext<'_>) -> Result<()>) -> Result<()> {
        for callback in &mut self.callbacks {
            let (compiled, coordinator) = (&mut *self.compiled, &mut *self.coordinator);
            let mut servers = OnServers { compiled, coordinator, fresh: &mut self.fresh };
            let (tallies, mut none) = (std::slice::from_ref(&self.tally), None);
            let mut cx = FitContext::new(&mut servers, self.place, None, tallies, &mut self.asked, &mut none);
            what(callback.as_mut(), &mut cx)?;
        }
        Ok(())
    }
}
