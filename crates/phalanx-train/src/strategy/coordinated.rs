//! A coordinated job whose program makes several calls.

use crate::coordinator::{OnServers, ProgramModel};
use crate::{Coordinator, RowReader, StepFunctions};
use phalanx_base::Result;
use phalanx_nn::burn::module::Module;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A model on parameter servers whose program makes several calls to the coordinator. [`Strategy::coordinated`] makes one.
///
/// Every task makes the same calls, and all return the chief's outcome, so the programs of all tasks take the same way
/// between two calls. Nothing is saved at the end of a call: the intervals of the supervisor, and
/// [`Session::save`](crate::Session::save) within a call, do that.
///
/// ```
/// use phalanx_nn::burn::nn::{Linear, LinearConfig};
/// use phalanx_optim::Sgd;
/// use phalanx_train::{MiniCluster, ParameterServerOptions, StepFunctions, Strategy};
/// let sum = MiniCluster::start(1, 2)?.run(|server| {
///     let strategy = Strategy::parameter_server_on(server, ParameterServerOptions::default())?;
///     let model: Linear = LinearConfig::new(2, 1).init(&phalanx_nn::default_device());
///     let mut job = strategy.coordinated(model, Sgd::new(0.1))?;
///     let mut sum = 0.0;
///     while sum < 10.0 {
///         let mut steps = StepFunctions::new();
///         let square = steps.evaluation(|_, x: f64| Ok(x * x));
///         let made = job.call(steps, |coordinator| coordinator.schedule(&square, 2.0)?.fetch())?;
///         sum += made.unwrap_or(10.0);
///     }
///     Ok(sum)
/// })?;
/// assert_eq!(sum, 12.0);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
///
/// [`Strategy::coordinated`]: crate::Strategy::coordinated
pub struct Coordinated<M: Module> {
    servers: OnServers<M>,
    module: M,
}

impl<M: Module> Coordinated<M> {
    pub(super) fn new(servers: OnServers<M>, module: M) -> Self {
        Self { servers: servers.without_saves(), module }
    }

    /// Makes a call, as [`Strategy::coordinate`](crate::Strategy::coordinate) does. `None` if the chief was asked to stop
    /// before it had an outcome.
    ///
    /// # Errors
    /// Fails if the job does not form or fails, or `coordinate` does.
    pub fn call<T: Serialize + DeserializeOwned>(
        &mut self,
        steps: StepFunctions<M>,
        coordinate: impl FnOnce(&mut Coordinator<M>) -> Result<T>,
    ) -> Result<Option<T>> {
        let called = self.servers.call(ProgramModel::of(self.module.clone()), steps, coordinate)?;
        Ok(called.map(|(outcome, model)| {
            self.module = model.module;
            outcome
        }))
    }

    /// Returns the model with the values at the end of the last call.
    pub fn module(&self) -> &M {
        &self.module
    }

    /// Returns a reader of the rows of the model's tables. There is one after the first call.
    ///
    /// # Errors
    /// Fails if there was no call yet, or a server does not answer.
    pub fn row_reader(&mut self) -> Result<RowReader> {
        self.servers.row_reader()
    }
}
