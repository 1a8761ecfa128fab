//! The ways to compute a step: from a loss, with rows of tables, or from gradients that the caller computes.

use super::{IntoStep, RowValues, Session, Step, StepGradients};
use crate::TableId;
use phalanx_base::Result;
use phalanx_nn::burn::module::Module;
use phalanx_nn::burn::tensor::{Gradients, Tensor};
use phalanx_nn::{HostBuffer, ParameterRegistry, Parameters, Rows};

impl<M: Module> Session<M> {
    /// Computes one step: `step` gets the model with the newest values and returns the loss of this task's batch, or the loss
    /// and a value of its own, `(loss, value)`; either may be in a `Result`. `None` when the job is over.
    ///
    /// ```
    /// # use phalanx_nn::burn::{nn::LinearConfig, tensor::Tensor};
    /// # use phalanx_optim::Sgd;
    /// # use phalanx_train::{Server, Supervisor};
    /// # let device = phalanx_nn::default_device();
    /// # let server = Server::local()?;
    /// # let supervisor = Supervisor::new(&server, Sgd::new(0.1));
    /// # let mut session = supervisor.prepare_or_wait_for_session(LinearConfig::new(2, 1).init(&device))?;
    /// # let batch = Tensor::<2>::ones([4, 2], &device);
    /// let step = session.step(|model| {
    ///     let output = model.forward(batch.clone());
    ///     let mean = output.clone().detach().mean();
    ///     (output.powf_scalar(2.0).mean(), mean)
    /// })?;
    /// if let Some(step) = step {
    ///     println!("step {}: loss {}, mean {}", step.global_step, step.loss, phalanx_nn::scalar(step.value)?);
    /// }
    /// # supervisor.stop(session)?;
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the model or its gradients are wrong, or the servers are lost, and what `step` returns.
    pub fn step<S: IntoStep>(&mut self, step: impl FnOnce(&M) -> S) -> Result<Option<Step<S::Value>>> {
        self.step_with_rows(&[], |model, _| step(model))
    }

    /// Computes one step of a model with tables. `ids` has, for each table used, the batch's ids; `step` gets their rows in
    /// the same order.
    ///
    /// # Errors
    /// As [`Self::step`].
    pub fn step_with_rows<S: IntoStep>(
        &mut self,
        ids: &[(TableId, &[i64])],
        step: impl FnOnce(&M, &[Rows]) -> S,
    ) -> Result<Option<Step<S::Value>>> {
        let device = self.local.module()?.devices().into_iter().next().unwrap_or_else(phalanx_nn::default_device);
        let mut value = None;
        let made = self.step_with_values(ids, |model, values| {
            let rows: Vec<Rows> =
                values.into_iter().map(|of| Rows::new(of.values, of.dim, &of.positions, &device)).collect();
            let (loss, own) = step(model, &rows).into_step()?;
            value = Some(own);
            Ok((loss, move |gradients: &mut Gradients| rows.iter().map(|rows| rows.gradients(gradients)).collect()))
        })?;
        Ok(made.zip(value).map(|(made, value)| made.with(value)))
    }

    /// Computes one step on rows as plain numbers. `compute` gets the rows and returns the loss and a function from the loss's
    /// gradients to those of the unique rows of each table used, `None` where there are none.
    ///
    /// # Errors
    /// As [`Self::step`], and what `compute` returns.
    pub fn step_with_values<G>(
        &mut self,
        ids: &[(TableId, &[i64])],
        compute: impl FnOnce(&M, Vec<RowValues>) -> Result<(Tensor<1>, G)>,
    ) -> Result<Option<Step>>
    where
        G: FnOnce(&mut Gradients) -> Result<Vec<Option<HostBuffer>>>,
    {
        self.step_with_gradients(ids, |module, registry, rows| {
            StepGradients::compute(registry, module, |module| compute(module, rows))
        })
    }
}

impl<M: Parameters> Session<M> {
    /// Computes one step whose gradients `compute` returns as buffers. It gets the model with the newest values, the
    /// registry of its parameters, and the rows.
    ///
    /// # Errors
    /// As [`Self::step`], and what `compute` returns.
    pub fn step_with_gradients(
        &mut self,
        ids: &[(TableId, &[i64])],
        compute: impl FnOnce(&M, &ParameterRegistry, Vec<RowValues>) -> Result<StepGradients>,
    ) -> Result<Option<Step>> {
        let span = tracing::debug_span!(parent: self.server().log().span(), "step", step = self.clock.global_step + 1);
        let step = span.in_scope(|| self.compute(ids, compute));
        self.server().record_failure(step)
    }
}
