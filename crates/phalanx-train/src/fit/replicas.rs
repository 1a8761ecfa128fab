//! Steps on the replicas of this process, whose gradients are summed with those of other workers.

use super::accumulators::Accumulators;
use super::evaluate::{ValidationData, nothing};
use super::executor::{Executor, StepEnd, TrainingView, Wish};
use super::objective::Objective;
use super::state::{FitPosition, ResumeState};
use super::step::StepPlan;
use super::step_metadata::StepMetadata;
use super::{Compiled, Data, Fit};
use crate::strategy::{DistributedDataset, PerReplica, ReplicaUpdate, with_rows};
use phalanx_base::{Error, Result};
use phalanx_data::{Batch, Position, ReplicaIterator};
use phalanx_nn::Network;
use phalanx_nn::model::Mode;

/// The replicas of this process and their data.
pub(super) struct Replicas<'a, M: Network> {
    compiled: &'a mut Compiled<M>,
    input: DistributedDataset,
    validation: Option<ValidationData>,
    /// The steps of an epoch, where the data continues from epoch to epoch.
    steps_per_epoch: Option<u64>,
    accumulators: Vec<Accumulators>,
    /// The iterator of the current pass.
    batches: Option<ReplicaIterator>,
    /// Whether that pass has ended.
    ended: bool,
    /// The steps of this epoch that are done.
    done: u64,
    /// The number of epochs, and of steps of each, if it is known.
    planned: (usize, Option<u64>),
}

impl<'a, M: Network> Replicas<'a, M> {
    /// Also returns the number of steps of a pass, if it is known.
    pub(super) fn new(compiled: &'a mut Compiled<M>, data: Data, fit: &mut Fit) -> Result<(Self, Option<u64>)> {
        compiled.strategy().begin_training(&compiled.model.registry)?;
        let (data, validation) = compiled.take_data(data, fit)?;
        let batched = data.batched(fit.batch_size, (!fit.in_order).then_some(fit.seed))?;
        let steps = batched.steps;
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
        let accumulators =
            (0..compiled.strategy().local_replicas()).map(|_| Accumulators::new(&compiled.objectives)).collect();
        let steps_per_epoch = fit.steps_per_epoch;
        let (batches, ended, done) = (None, false, 0);
        let planned = (fit.epochs.unwrap_or(1), steps_per_epoch.or(steps));
        let replicas =
            Self { compiled, input, validation, steps_per_epoch, accumulators, batches, ended, done, planned };
        Ok((replicas, steps))
    }

    /// Computes and applies one step. Returns what all workers have to say about it.
    fn train(&mut self, batches: PerReplica<Batch>, with_data: bool, wish: Wish) -> Result<StepEnd> {
        let rows: usize = batches.local_results().map(Batch::rows).sum();
        let workers = self.compiled.strategy().workers().map_or(1, |workers| workers.size());
        if workers == 1 && rows == 0 {
            let end = StepEnd::Trained { stop: wish.interrupted, interrupted: wish.interrupted };
            return Ok(if with_data { end } else { StepEnd::DataEnded });
        }
        // A single worker knows the rows of this step. Several divide by the rows of a full step, and the sum of their
        // metadata corrects that.
        let nominal = if workers == 1 { Some(rows) } else { self.input.global_batch() }.unwrap_or(1).max(1) as f32;
        let computed = self.compute(batches, nominal)?;
        let mut words = StepMetadata::new(rows, with_data, nominal, wish.asked, wish.interrupted).words();
        // Some workers may take longer to open their input.
        let patient = self.done == 0;
        self.compiled.model.apply(computed, &mut words, patient, |words| StepMetadata::read(words).scale(nominal))?;
        let all = StepMetadata::read(&words);
        all.check(nominal, workers)?;
        Ok(match all.anybody_has_data() {
            true => StepEnd::Trained { stop: all.anybody_stops(), interrupted: all.interrupted() },
            false => StepEnd::DataEnded,
        })
    }

    fn compute(&mut self, batches: PerReplica<Batch>, nominal: f32) -> Result<Vec<ReplicaUpdate>> {
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
}

impl<M: Network> Executor for Replicas<'_, M> {
    fn objectives(&self) -> &[Objective] {
        &self.compiled.objectives
    }

    fn show(&mut self, see: &mut dyn FnMut(TrainingView<'_>) -> Result<()>) -> Result<()> {
        let (batches, accumulators) = (self.batches.as_ref(), &*self.accumulators);
        see(TrainingView { model: &mut *self.compiled, batches, accumulators })
    }

    fn find_position(&mut self, _: FitPosition) -> Result<Option<FitPosition>> {
        Ok(None)
    }

    fn resume(&mut self, resumed: ResumeState) -> Result<()> {
        if let Some(position) = resumed.position {
            let position = Position::from_bytes(&position)?;
            self.batches = Some(self.input.input().iter_from(&position)?);
            self.ended = resumed.at.batch == 0 && self.steps_per_epoch.is_none();
        }
        Accumulators::resume(&mut self.accumulators, &resumed.words)
    }

    fn begin_epoch(&mut self, at: FitPosition) -> Result<()> {
        self.done = at.batch;
        if let ((epochs, Some(steps)), Some(counters)) = (self.planned, self.compiled.strategy().counters()) {
            let left = (epochs.saturating_sub(at.epoch) as u64 * steps).saturating_sub(at.batch);
            counters.expect(self.compiled.iterations() + left);
        }
        if std::mem::take(&mut self.ended) || self.batches.is_none() {
            self.batches = Some(self.input.input().iter()?);
        }
        Ok(())
    }

    fn step(&mut self, wish: Wish) -> Result<StepEnd> {
        if wish.stop || self.steps_per_epoch.is_some_and(|steps| self.done >= steps) {
            return Ok(StepEnd::Done);
        }
        let batches = self.batches.as_mut().and_then(Iterator::next).transpose()?;
        let with_data = batches.is_some();
        let end = self.train(with_rows(batches), with_data, wish)?;
        self.done += u64::from(end != StepEnd::DataEnded);
        self.ended = end == StepEnd::DataEnded;
        if self.ended {
            // The first pass over a dataset shows how many steps it has.
            self.planned.1.get_or_insert(self.done);
        }
        Ok(end)
    }

    fn sums(&self) -> Result<Accumulators> {
        Accumulators::sum(&self.compiled.objectives, &self.accumulators)
    }

    fn end_epoch(&mut self, _: FitPosition) -> Result<Accumulators> {
        let sums = self.compiled.together(&self.accumulators)?;
        self.accumulators.iter_mut().for_each(Accumulators::reset);
        self.compiled.model.average_states()?;
        Ok(sums)
    }

    fn validates(&self) -> bool {
        self.validation.is_some()
    }

    fn validate(&mut self) -> Result<Accumulators> {
        self.validation.as_ref().map_or_else(|| Err(nothing("evaluate on")), |data| self.compiled.validate(data))
    }

    fn decides(&self) -> bool {
        self.compiled.strategy().workers().is_none()
    }

    fn interruption(&mut self) -> Option<Error> {
        self.compiled.strategy().interrupted()
    }

    fn in_scope(&mut self, f: &mut dyn FnMut()) {
        match self.compiled.strategy().workers() {
            Some(workers) => workers.in_scope(f),
            None => f(),
        }
    }
}
