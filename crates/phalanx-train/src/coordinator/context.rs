//! The context of a step, on the worker that runs it.

use super::handle::{DatasetHandle, MetricHandle, ResourceHandle};
use super::inputs::Inputs;
use super::metrics::StepMetrics;
use super::{DatasetPart, StepFunctions};
use crate::{IntoLoss, RowReader, RowValues, Session, StepGradients, TableId};
use phalanx_base::{Code, Error, Result, TaskId};
use phalanx_data::{Batch, DatasetIter, InputContext};
use phalanx_nn::burn::module::Module;
use phalanx_nn::metrics::Values;
use phalanx_nn::{ParameterRegistry, Rows};
use std::any::{Any, type_name};

/// The context of a step: its input, resources and metrics, and the model.
pub struct StepContext<'a, M> {
    pub(super) session: &'a mut Session<M>,
    pub(super) inputs: &'a mut Inputs,
    pub(super) metrics: &'a mut StepMetrics,
    pub(super) steps: &'a StepFunctions<M>,
    pub(super) id: u64,
    /// Whether the step may push gradients, and has not done so yet.
    pub(super) may_push: bool,
}

impl<M: Module> StepContext<'_, M> {
    /// Returns the number of the step; the same when it runs again.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the worker that the step runs on.
    #[must_use]
    pub fn task(&self) -> TaskId {
        self.session.server().task()
    }

    /// Returns the index of this worker's input pipeline and the number of all.
    #[must_use]
    pub fn input_context(&self) -> InputContext {
        self.inputs.context()
    }

    /// Returns the next batch of this worker's share of a dataset; `None` at its end.
    ///
    /// # Errors
    /// When the dataset cannot be read.
    pub fn try_next(&mut self, dataset: &DatasetHandle) -> Result<Option<Batch>> {
        self.inputs.next(self.steps, self.steps.index(dataset)?)
    }

    /// Returns the next batch of a dataset that does not end.
    ///
    /// # Errors
    /// As [`Self::try_next`], and at the end: TensorFlow's `OutOfRange`.
    pub fn next(&mut self, dataset: &DatasetHandle) -> Result<Batch> {
        self.try_next(dataset)?.ok_or_else(|| {
            Error::new(Code::DataEnd, "a dataset has ended")
                .at(self.task().to_string())
                .help("repeat it, or schedule fewer steps")
        })
    }

    /// Restarts a dataset of this worker from its beginning.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn rewind(&mut self, dataset: &DatasetHandle) -> Result<()> {
        self.inputs.rewind(self.steps, self.steps.index(dataset)?)
    }

    /// Begins pass `number` over a dataset, unless this worker is in it already, or in a later one; returns the pass it is in.
    /// A worker that was started again continues its pass.
    pub(crate) fn begin_pass(&mut self, dataset: &DatasetHandle, number: u64) -> Result<u64> {
        self.inputs.begin_pass(self.steps, self.steps.index(dataset)?, number)
    }

    /// Returns whether the step completes the update of a lost worker: it must then push, even if only zeros.
    pub(crate) fn acts_for_another(&self) -> bool {
        self.session.acts_for_another()
    }

    /// Returns a part of a dataset, for an evaluation.
    ///
    /// # Errors
    /// When the dataset cannot be opened.
    pub fn part(&self, dataset: &DatasetHandle, part: DatasetPart) -> Result<DatasetIter> {
        self.inputs.part(self.steps, self.steps.index(dataset)?, part)
    }

    /// Returns a value of this worker, created on first use: TensorFlow's per-worker resource.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn resource<T: Any>(&mut self, resource: &ResourceHandle<T>) -> Result<&mut T> {
        let made = self.inputs.resource(self.steps, self.steps.index(resource)?)?;
        made.downcast_mut()
            .ok_or_else(|| Error::new(Code::Internal, format!("a resource is not a {}", type_name::<T>())))
    }

    /// Adds a batch to a metric. It counts with the step: once, if the step succeeds, whichever workers ran it. `weights` has
    /// one number per example.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn update<'v>(
        &mut self,
        metric: &MetricHandle,
        labels: impl Into<Values<'v>>,
        predictions: impl Into<Values<'v>>,
        weights: Option<&[f32]>,
    ) -> Result<()> {
        self.metrics.metric(self.steps.index(metric)?)?.update(labels.into(), predictions.into(), weights)
    }

    /// Adds a number, such as the loss, to a [`Mean`](phalanx_nn::metrics::Mean) or a [`Sum`](phalanx_nn::metrics::Sum).
    ///
    /// # Errors
    /// When the metric is of another kind.
    pub fn record(&mut self, metric: &MetricHandle, number: f32) -> Result<()> {
        let number = [number];
        self.update(metric, &number[..], &number[..], None)
    }

    /// Computes a loss on the newest values, pushes its gradients to the servers, and returns the loss. The closure returns a
    /// tensor, or a `Result` with one.
    ///
    /// # Errors
    /// When the model or its gradients are wrong, or the servers are lost, and what `loss` returns.
    pub fn minimize<L: IntoLoss>(&mut self, loss: impl FnOnce(&M) -> L) -> Result<f32> {
        self.minimize_with_rows(&[], |model, _| loss(model))
    }

    /// Like [`Self::minimize`], for a model with tables: `ids` has, for each table used, the batch's ids.
    ///
    /// # Errors
    /// As [`Self::minimize`].
    pub fn minimize_with_rows<L: IntoLoss>(
        &mut self,
        ids: &[(TableId, &[i64])],
        loss: impl FnOnce(&M, &[Rows]) -> L,
    ) -> Result<f32> {
        let loss = |model: &M, rows: &[Rows]| loss(model, rows).into_loss();
        self.with_session(|session| session.step_with_rows(ids, loss)?.ok_or_else(ended)).map(|step| step.loss)
    }

    /// Computes gradients as buffers on the newest values, and pushes them to the servers. `compute` gets the model, the
    /// registry of its parameters, and a reader of rows if the model has tables. If it returns no gradients, the step changes
    /// nothing.
    ///
    /// # Errors
    /// When the gradients are wrong, or the servers are lost, and what `compute` returns.
    pub fn step_with_gradients(
        &mut self,
        compute: impl FnOnce(&M, &ParameterRegistry, Option<RowReader>) -> Result<Option<StepGradients>>,
    ) -> Result<()> {
        self.with_session(|session| {
            let tables = !session.layout().tables().is_empty();
            let reader = if tables { Some(session.row_reader()?) } else { None };
            let mut pushes = false;
            let step = session.step_with_gradients(&[], |model, registry, _| {
                let gradients = compute(model, registry, reader)?;
                pushes = gradients.is_some();
                Ok(gradients.unwrap_or_default())
            })?;
            if !pushes && !session.acts_for_another() {
                session.forget_last_step();
            }
            step.map(drop).ok_or_else(ended)
        })
    }

    /// Runs `act`, which may do the one step of a [`Session`] that this step has.
    ///
    /// # Errors
    /// When the step is an evaluation, or has pushed already, and what `act` returns.
    pub fn with_session<T>(&mut self, act: impl FnOnce(&mut Session<M>) -> Result<T>) -> Result<T> {
        if !std::mem::replace(&mut self.may_push, false) {
            return Err(Error::new(Code::BadSetting, "a step pushes gradients once, and an evaluation never does")
                .at(self.task().to_string())
                .help("register what trains with StepFunctions::register, and compute one loss in it"));
        }
        let server = self.session.server();
        if let Some(position) = server.in_scope(|| self.inputs.position()) {
            self.session.save_position(position);
        }
        act(self.session)
    }

    /// Returns the model with the newest values, for an evaluation.
    ///
    /// # Errors
    /// When the servers are lost.
    pub fn newest_model(&mut self) -> Result<&M> {
        self.session.refresh()?;
        self.session.model()
    }

    /// Returns the model with the newest values, and the rows of these ids: for each table used, the ids.
    ///
    /// # Errors
    /// When there is no such table, or the servers are lost.
    pub fn look_up(&mut self, ids: &[(TableId, &[i64])]) -> Result<(&M, Vec<RowValues>)> {
        let rows = self.session.look_up(ids)?;
        Ok((self.session.model()?, rows))
    }

    /// Returns the number of committed steps, as far as this worker knows.
    #[must_use]
    pub fn global_step(&self) -> u64 {
        self.session.global_step()
    }
}

fn ended() -> Error {
    Error::new(Code::JobFailed, "the job ended before the step did").relayed()
}
