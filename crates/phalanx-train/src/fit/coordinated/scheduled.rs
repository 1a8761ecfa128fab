//! The steps of a `fit` on the workers of a job: the chief schedules them and sums their accumulators.

use super::steps::{StepReport, TRAIN, TrainArguments, VALIDATE};
use super::trained_state::TrainedOnServers;
use super::worker_progress::WorkerProgress;
use crate::fit::Compiled;
use crate::fit::accumulators::Accumulators;
use crate::fit::evaluate::nothing;
use crate::fit::executor::{Executor, StepEnd, TrainingView, Wish};
use crate::fit::objective::Objective;
use crate::fit::state::{FitPosition, ResumeState};
use crate::fit::trained_state::TrainedState;
use crate::{Coordinator, DatasetPart, RemoteValue};
use phalanx_base::{Error, Result};
use phalanx_nn::Network;
use serde::de::DeserializeOwned;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Steps scheduled ahead for each worker: enough that none waits, few enough that a `fit` can stop soon.
const AHEAD: usize = 8;
/// How long the chief waits for a result before it checks the job's state.
const LOOK: Duration = Duration::from_millis(100);

/// The settings of the steps.
pub(super) struct RunSettings {
    /// The steps of an epoch, where the data continues from epoch to epoch. A step is an update.
    pub(super) steps_per_epoch: Option<u64>,
    /// The steps of a pass, if that is known.
    pub(super) batches: Option<u64>,
    /// Whether there is validation data.
    pub(super) validated: bool,
    /// How many workers' steps make an update.
    pub(super) round: u64,
}

/// The workers of a job, as its chief directs them.
pub(super) struct Scheduled<'a, M: Network> {
    compiled: &'a mut Compiled<M>,
    coordinator: &'a mut Coordinator<M>,
    settings: RunSettings,
    workers: WorkerProgress,
    scheduled: VecDeque<RemoteValue<StepReport>>,
    accumulators: Accumulators,
    /// The epoch, and its steps that workers have reported.
    at: FitPosition,
    /// The reports of the step that is not complete.
    reports: u64,
    /// Whether all workers have read their data to its end.
    over: bool,
    /// The learning rate that the servers were created with.
    rate: f32,
    /// Whether the chief's values are the newest.
    fresh: bool,
}

impl<'a, M: Network> Scheduled<'a, M> {
    pub(super) fn new(
        compiled: &'a mut Compiled<M>,
        coordinator: &'a mut Coordinator<M>,
        settings: RunSettings,
    ) -> Result<Self> {
        Ok(Self {
            workers: WorkerProgress::of(coordinator)?,
            scheduled: VecDeque::new(),
            accumulators: Accumulators::new(&compiled.objectives),
            at: FitPosition::default(),
            reports: 0,
            over: false,
            rate: compiled.optimizer().map_or(0.0, |optimizer| optimizer.learning_rate()),
            fresh: false,
            compiled,
            coordinator,
            settings,
        })
    }

    /// Schedules steps ahead.
    fn schedule(&mut self) -> Result<()> {
        let ahead = AHEAD * (self.workers.size() + 1);
        let train = self.coordinator.find_step(TRAIN)?;
        while self.scheduled.len() < ahead && self.wants_more() {
            let order = self.order();
            self.scheduled.push_back(self.coordinator.schedule(&train, order)?);
        }
        Ok(())
    }

    /// Returns whether the epoch needs another step of a worker than those that are scheduled.
    fn wants_more(&self) -> bool {
        let target = self.settings.steps_per_epoch.or(self.settings.batches);
        let taken = self.at.batch * self.settings.round + self.reports + self.scheduled.len() as u64;
        target.is_none_or(|target| taken < target * self.settings.round)
    }

    fn order(&self) -> TrainArguments {
        let rate = self.compiled.optimizer().map_or(self.rate, |optimizer| optimizer.learning_rate());
        // No two calls have a pass in common.
        let pass = (self.coordinator.call().number << 32) + self.at.epoch as u64;
        let pass = self.settings.steps_per_epoch.is_none().then_some(pass);
        let measured = self.compiled.model.update.as_ref().is_some_and(|update| update.norm.is_wanted());
        TrainArguments { pass, learning_rate: (rate != self.rate).then_some(rate), measured }
    }

    /// Takes a worker's report. Returns whether a step is complete with it.
    fn take(&mut self, report: StepReport) -> Result<bool> {
        self.fresh = false;
        let Some(words) = report.words else {
            self.workers.has_ended(report.task.parse()?);
            self.over = self.workers.all_ended(self.coordinator)?;
            return Ok(false);
        };
        self.accumulators.merge(&words)?;
        if let (Some(norm), Some(request)) = (report.norm, self.compiled.model.norm_request()) {
            request.set(norm);
        }
        self.reports += 1;
        if self.reports < self.settings.round {
            return Ok(false);
        }
        self.complete_step();
        Ok(true)
    }

    fn complete_step(&mut self) {
        self.reports = 0;
        self.at.batch += 1;
        if let Some(update) = &mut self.compiled.model.update {
            update.iterations += 1;
        }
    }

    /// Waits until every worker has joined or is lost: a round is to have a step of each.
    fn wait_for_workers(&mut self) -> Result<()> {
        let (began, mut logged) = (Instant::now(), Duration::ZERO);
        loop {
            let awaited = self.workers.awaited(self.coordinator)?;
            let session = self.coordinator.session_mut()?;
            let (job, longest) = (session.server().job(), session.server().options().formation_deadline);
            if let Some(error) = job.failure().or_else(|| job.interrupted()) {
                return Err(error);
            }
            if awaited.is_empty() || began.elapsed() > longest {
                return Ok(());
            }
            if began.elapsed() > logged + Duration::from_secs(5) {
                logged = began.elapsed();
                let names: Vec<String> = awaited.iter().map(ToString::to_string).collect();
                self.log(&format!("waiting for {} to join: synchronous rounds have a step of each", names.join(", ")))?;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Evaluates the validation data in parts. Free workers take the next part; every example counts once, even if
    /// workers are lost.
    pub(super) fn evaluate(&mut self) -> Result<Accumulators> {
        let parts = 5 * self.workers.size().max(1);
        let validate = self.coordinator.find_step::<DatasetPart, Vec<f64>>(VALIDATE)?;
        let part = |part| self.coordinator.schedule(&validate, part);
        let scheduled = DatasetPart::all(parts).map(part).collect::<Result<Vec<_>>>()?;
        let mut accumulators = Accumulators::new(&self.compiled.objectives);
        for part in &scheduled {
            let words = self.wait_for(part)?;
            accumulators.merge(&words)?;
        }
        if accumulators.is_empty() { Err(nothing("evaluate on")) } else { Ok(accumulators) }
    }

    /// Waits for a step. If it failed, waits for all of them and returns the first error.
    fn wait_for<T: DeserializeOwned>(&mut self, step: &RemoteValue<T>) -> Result<T> {
        loop {
            let done = step.fetch_within(LOOK);
            if step.is_done() {
                return done.or_else(|error| self.coordinator.join().and(Err(error)));
            }
            let job = self.coordinator.session_mut()?.server().job();
            if let Some(error) = job.failure().or_else(|| job.interrupted()) {
                return Err(error);
            }
        }
    }

    /// Fetches the newest values and the count of updates from the servers. Returns the count.
    fn fetch(&mut self) -> Result<u64> {
        let updates = self.coordinator.global_step()?;
        self.fresh = false;
        self.state().fetch()?;
        if let Some(update) = &mut self.compiled.model.update {
            update.iterations = updates;
        }
        Ok(updates)
    }

    fn state(&mut self) -> TrainedOnServers<'_, M> {
        TrainedOnServers { compiled: self.compiled, coordinator: self.coordinator, fresh: &mut self.fresh }
    }

    fn log(&mut self, line: &str) -> Result<()> {
        self.coordinator.session_mut()?.server().in_scope(|| tracing::info!("{line}"));
        Ok(())
    }
}

impl<M: Network> Executor for Scheduled<'_, M> {
    fn objectives(&self) -> &[Objective] {
        &self.compiled.objectives
    }

    fn show(&mut self, see: &mut dyn FnMut(TrainingView<'_>) -> Result<()>) -> Result<()> {
        let Self { compiled, coordinator, fresh, accumulators, .. } = self;
        let mut model = TrainedOnServers { compiled, coordinator, fresh };
        see(TrainingView { model: &mut model, batches: None, accumulators: std::slice::from_ref(accumulators) })
    }

    /// Finds the position of a job that continues from the servers' count of updates.
    fn find_position(&mut self, begin: FitPosition) -> Result<Option<FitPosition>> {
        let done = self.fetch()?.saturating_sub(self.coordinator.call().steps_before);
        if done == 0 {
            return Ok(None);
        }
        let mut at = begin;
        let mut place = String::new();
        if let Some(steps) = self.settings.steps_per_epoch {
            at.epoch += usize::try_from(done / steps.max(1)).unwrap_or(usize::MAX);
            at.batch = done % steps.max(1);
            place = format!(": epoch {}, after {} steps", at.epoch + 1, at.batch);
        }
        self.log(&format!("continuing after {done} updates{place}"))?;
        Ok(Some(at))
    }

    fn resume(&mut self, _: ResumeState) -> Result<()> {
        self.state().check_backup()
    }

    fn begin_epoch(&mut self, at: FitPosition) -> Result<()> {
        (self.at, self.reports, self.over) = (at, 0, false);
        self.workers.begin();
        if self.settings.round > 1 { self.wait_for_workers() } else { Ok(()) }
    }

    fn step(&mut self, wish: Wish) -> Result<StepEnd> {
        loop {
            if wish.interrupted {
                return Ok(StepEnd::Interrupted);
            }
            if self.over || wish.stop {
                // Cancel what no worker has started; the rest completes.
                self.scheduled.retain(|step| !step.cancel());
            } else {
                self.schedule()?;
            }
            let Some(step) = self.scheduled.pop_front() else { break };
            let report = match self.wait_for(&step) {
                Err(_) if self.interruption().is_some() => return Ok(StepEnd::Interrupted),
                report => report?,
            };
            if self.take(report)? {
                return Ok(StepEnd::Trained { stop: false, interrupted: false });
            }
        }
        if self.reports > 0 {
            // The last round has fewer gradients.
            self.complete_step();
            return Ok(StepEnd::Trained { stop: false, interrupted: false });
        }
        Ok(if self.over { StepEnd::DataEnded } else { StepEnd::Done })
    }

    fn sums(&self) -> Result<Accumulators> {
        Accumulators::sum(&self.compiled.objectives, [&self.accumulators])
    }

    fn end_epoch(&mut self, at: FitPosition) -> Result<Accumulators> {
        self.coordinator.join()?;
        let behind = self.workers.behind();
        if self.over && self.settings.steps_per_epoch.is_none() && at.batch > 0 && !behind.is_empty() {
            self.log(&format!(
                "epoch {} ends without all of the data: the share of {} was not read to its end",
                at.epoch + 1,
                behind.join(", ")
            ))?;
        }
        self.fetch()?;
        let sums = self.sums();
        self.accumulators.reset();
        sums
    }

    fn validates(&self) -> bool {
        self.settings.validated
    }

    fn validate(&mut self) -> Result<Accumulators> {
        self.evaluate()
    }

    fn decides(&self) -> bool {
        true
    }

    fn interruption(&mut self) -> Option<Error> {
        self.coordinator.session_mut().ok()?.server().job().interrupted()
    }

    fn give_up(&mut self) -> Result<()> {
        self.coordinator.session_mut().and_then(crate::Session::save_last)
    }

    fn in_scope(&mut self, f: &mut dyn FnMut()) {
        match self.coordinator.session_mut() {
            Ok(session) => session.server().in_scope(f),
            Err(_) => f(),
        }
    }
}
