//! The context of a step, on the worker that runs it.

use super::StepFunctions;
use super::inputs::Inputs;
use crate::{RowValues, Session};
use phalanx_base::{Code, Error, Result, TaskId};
use phalanx_data::{Batch, DatasetIter, InputContext};
use phalanx_nn::Rows;
use phalanx_nn::burn::module::Module;
use phalanx_nn::burn::tensor::{Gradients, Tensor};
use std::any::Any;

/// The context of a step: its arguments, input, resources and the model.
pub struct StepContext<'a, M> {
    pub(super) session: &'a mut Session<M>,
    pub(super) inputs: &'a mut Inputs,
    pub(super) steps: &'a StepFunctions<M>,
    pub(super) arguments: &'a [f64],
    pub(super) id: u64,
    /// Whether the step may push gradients, and has not done so yet.
    pub(super) may_push: bool,
}

impl<M: Module> StepContext<'_, M> {
    /// Returns the arguments that the step was scheduled with.
    #[must_use]
    pub fn arguments(&self) -> &[f64] {
        self.arguments
    }

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
    /// When there is no such dataset, or it cannot be read.
    pub fn try_next(&mut self, dataset: &str) -> Result<Option<Batch>> {
        self.inputs.next(self.steps, dataset)
    }

    /// Returns the next batch of a dataset that does not end.
    ///
    /// # Errors
    /// As [`Self::try_next`], and at the end: TensorFlow's `OutOfRange`.
    pub fn next(&mut self, dataset: &str) -> Result<Batch> {
        self.try_next(dataset)?.ok_or_else(|| {
            Error::new(Code::DataEnd, format!("dataset {dataset:?} has ended"))
                .at(self.task().to_string())
                .help("repeat it, or schedule fewer steps")
        })
    }

    /// Restarts a dataset of this worker from its beginning.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn rewind(&mut self, dataset: &str) -> Result<()> {
        self.inputs.rewind(self.steps, dataset)
    }

    /// Begins pass `number` over a dataset, unless this worker is in it already, or in a later one; returns the pass it is in.
    /// A worker that was started again continues its pass.
    pub(crate) fn begin_pass(&mut self, dataset: &str, number: u64) -> Result<u64> {
        self.inputs.begin_pass(self.steps, dataset, number)
    }

    /// Returns whether the step completes the update of a lost worker: it must then push, even if only zeros.
    pub(crate) fn acts_for_another(&self) -> bool {
        self.session.acts_for_another()
    }

    /// Returns part `index` of `of` of a dataset, for an evaluation: its parts together are the dataset, whichever workers read
    /// them.
    ///
    /// # Errors
    /// When there is no such dataset, or it cannot be opened.
    pub fn part(&self, dataset: &str, index: usize, of: usize) -> Result<DatasetIter> {
        self.inputs.part(self.steps, dataset, index, of)
    }

    /// Returns a value of this worker, created on first use: TensorFlow's per-worker resource.
    ///
    /// # Errors
    /// When none is registered under that name, it cannot be created, or it is of another type.
    pub fn resource<T: Any>(&mut self, name: &str) -> Result<&mut T> {
        self.inputs.resource(self.steps, name)?.downcast_mut().ok_or_else(|| {
            Error::new(Code::BadSetting, format!("resource {name:?} is not a {}", std::any::type_name::<T>()))
        })
    }

    /// Computes a loss on the newest values, pushes its gradients to the servers, and returns the loss.
    ///
    /// # Errors
    /// When the model or its gradients are wrong, or the servers are lost.
    pub fn minimize(&mut self, loss: impl FnOnce(&M) -> Tensor<1>) -> Result<f64> {
        self.minimize_with_rows(&[], |model, _| loss(model))
    }

    /// Like [`Self::minimize`], with a loss that can fail.
    ///
    /// # Errors
    /// As [`Self::minimize`], and what `loss` returns.
    pub fn try_minimize(&mut self, loss: impl FnOnce(&M) -> Result<Tensor<1>>) -> Result<f64> {
        let nothing = |_: &mut Gradients| Ok(Vec::new());
        let step = self.with_session(|session| {
            session.step_with_values(&[], |model, _| Ok((loss(model)?, nothing)))?.ok_or_else(ended)
        })?;
        Ok(f64::from(step.loss))
    }

    /// Like [`Self::minimize`], for a model with tables: `ids` has, for each table used, its number and the batch's ids.
    ///
    /// # Errors
    /// As [`Self::minimize`].
    pub fn minimize_with_rows(
        &mut self,
        ids: &[(usize, &[i64])],
        loss: impl FnOnce(&M, &[Rows]) -> Tensor<1>,
    ) -> Result<f64> {
        self.with_session(|session| session.step_with_rows(ids, loss)?.ok_or_else(ended))
            .map(|step| f64::from(step.loss))
    }

    /// Runs `act`, which may do the one step of a [`Session`] that this step has.
    ///
    /// # Errors
    /// When the step is an evaluation, or has pushed already, and what `act` returns.
    pub fn with_session<T>(&mut self, act: impl FnOnce(&mut Session<M>) -> Result<T>) -> Result<T> {
        if !std::mem::replace(&mut self.may_push, false) {
            return Err(Error::new(Code::BadSetting, "a step pushes gradients once, and an evaluation never does")
                .at(self.task().to_string())
                .help("register what trains with StepFunctions::step, and compute one loss in it"));
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

    /// Returns the model with the newest values, and the rows of these ids: for each table used, its number and the ids.
    ///
    /// # Errors
    /// When there is no such table, or the servers are lost.
    pub fn look_up(&mut self, ids: &[(usize, &[i64])]) -> Result<(&M, Vec<RowValues>)> {
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
