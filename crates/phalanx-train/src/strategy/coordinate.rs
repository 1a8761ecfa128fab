//! Steps that a coordinator schedules on workers.

use super::{Coordinated, ParameterServers, Strategy};
use crate::coordinator::{OnServers, ProgramModel};
use crate::{Coordinator, StepFunctions, Supervisor};
use phalanx_base::{Code, Error, Result};
use phalanx_nn::burn::module::Module;
use phalanx_optim::OptimizerChoice;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The settings of a coordinated job's variables: an optimizer, as a value or by Keras' name, or a [`Supervisor`] that
/// [`Strategy::supervisor`] made and the program changed.
pub trait IntoSupervisor {
    /// Returns a supervisor of the strategy's task.
    ///
    /// # Errors
    /// Fails if there is no such optimizer, or the strategy has no parameter servers.
    fn into_supervisor(self, strategy: &Strategy) -> Result<Supervisor>;
}

impl<O: Into<OptimizerChoice>> IntoSupervisor for O {
    fn into_supervisor(self, strategy: &Strategy) -> Result<Supervisor> {
        strategy.supervisor(self)
    }
}

impl IntoSupervisor for Supervisor {
    fn into_supervisor(self, strategy: &Strategy) -> Result<Supervisor> {
        let own = strategy.parameter_servers()?.server();
        if (own.task(), own.incarnation()) == (self.server().task(), self.server().incarnation()) {
            return Ok(self);
        }
        Err(Error::new(Code::BadSetting, "the supervisor belongs to another task than the strategy")
            .help("make it with Strategy::supervisor"))
    }
}

impl Strategy {
    /// Runs a job in which a coordinator schedules steps on whichever worker is free: TensorFlow's `ClusterCoordinator` with
    /// a `ParameterServerStrategy`.
    ///
    /// Every task of the job makes the same call. The chief runs `coordinate` and ends the job with it; workers compute the
    /// steps, which every task has registered alike, and parameter servers serve. All return the chief's result; `None` in the
    /// others if the chief was asked to stop before it had one. Without a cluster, this process is chief, worker and server.
    ///
    /// ```
    /// use phalanx_cluster::TaskConfig;
    /// use phalanx_nn::burn::nn::{Linear, LinearConfig};
    /// use phalanx_nn::burn::tensor::Tensor;
    /// use phalanx_optim::Sgd;
    /// use phalanx_train::{ParameterServerOptions, ServerOptions, StepFunctions, Strategy};
    /// let settings = ParameterServerOptions::default();
    /// let strategy = Strategy::parameter_server(&TaskConfig::local(), &ServerOptions::default(), settings)?;
    /// let mut steps = StepFunctions::new();
    /// let train = steps.register(|cx, scale: f32| {
    ///     let x = Tensor::<2>::ones([4, 2], &phalanx_nn::default_device()) * scale;
    ///     cx.minimize(|model: &Linear| model.forward(x).powi_scalar(2).mean())
    /// });
    /// let model = LinearConfig::new(2, 1).init(&phalanx_nn::default_device());
    /// let updates = strategy.coordinate(model, Sgd::new(0.1), steps, |coordinator| {
    ///     (0..20).try_for_each(|_| coordinator.schedule(&train, 0.5).map(drop))?;
    ///     coordinator.join()?;
    ///     coordinator.global_step()
    /// })?;
    /// assert_eq!(updates, Some(20));
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the strategy has no parameter servers or has trained a model already, the job does not form or fails, or
    /// `coordinate` does.
    pub fn coordinate<M: Module, T: Serialize + DeserializeOwned>(
        &self,
        model: M,
        settings: impl IntoSupervisor,
        steps: StepFunctions<M>,
        coordinate: impl FnOnce(&mut Coordinator<M>) -> Result<T>,
    ) -> Result<Option<T>> {
        let called = self.connect(settings)?.call(ProgramModel::of(model), steps, coordinate)?;
        Ok(called.map(|(outcome, _)| outcome))
    }

    /// Connects a model to the job, for a program that makes several calls to the coordinator. Every task makes the same
    /// ones; [`Strategy::coordinate`] is a program of one call.
    ///
    /// # Errors
    /// As [`Strategy::coordinate`].
    pub fn coordinated<M: Module>(&self, model: M, settings: impl IntoSupervisor) -> Result<Coordinated<M>> {
        Ok(Coordinated::new(self.connect(settings)?, model))
    }

    fn connect<M: Module>(&self, settings: impl IntoSupervisor) -> Result<OnServers<M>> {
        crate::logging::init();
        let servers = self.parameter_servers()?;
        let connected = settings.into_supervisor(self).and_then(|supervisor| servers.connect(supervisor));
        if let Err(error) = &connected {
            servers.server().leave(Some(error));
        }
        connected
    }

    /// Returns a supervisor with the strategy's settings, for a coordinated job that needs more of them: tables of rows,
    /// intervals of checkpoints, optimizers of single variables.
    ///
    /// ```
    /// use phalanx_cluster::TaskConfig;
    /// use phalanx_nn::burn::nn::{Linear, LinearConfig};
    /// use phalanx_optim::Sgd;
    /// use phalanx_ps::{TableSpec, plan::RowInitializer};
    /// use phalanx_train::{ParameterServerOptions, ServerOptions, StepFunctions, Strategy};
    /// let settings = ParameterServerOptions::default();
    /// let strategy = Strategy::parameter_server(&TaskConfig::local(), &ServerOptions::default(), settings)?;
    /// let mut supervisor = strategy.supervisor(Sgd::new(0.1))?;
    /// let (initializer, optimizer) = (RowInitializer::constant(0.5), Sgd::new(0.1).into());
    /// let users = supervisor.table(TableSpec { name: "users".into(), dim: 2, initializer, optimizer })?;
    /// let mut steps = StepFunctions::new();
    /// let train = steps.register(move |cx, ids: Vec<i64>| {
    ///     cx.minimize_with_rows(&[(users, &ids)], |model: &Linear, rows| model.forward(rows[0].lookup()).mean())
    /// });
    /// let model = LinearConfig::new(2, 1).init(&phalanx_nn::default_device());
    /// let loss = strategy.coordinate(model, supervisor, steps, |coordinator| coordinator.schedule(&train, vec![7, 9])?.fetch())?;
    /// assert!(loss.is_some_and(f32::is_finite));
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails if there is no such optimizer, the strategy has no parameter servers, or its run directory cannot be opened.
    pub fn supervisor(&self, optimizer: impl Into<OptimizerChoice>) -> Result<Supervisor> {
        self.parameter_servers()?.supervisor(optimizer.into().resolve()?)
    }

    fn parameter_servers(&self) -> Result<&ParameterServers> {
        self.servers().ok_or_else(|| {
            Error::new(Code::BadSetting, format!("{} has no coordinator", self.name()))
                .because("a coordinator hands steps to the workers of a job with parameter servers")
                .help("use Strategy::parameter_server, or Strategy::run for steps of every replica")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MiniCluster, ParameterServerOptions, Server, ServerOptions};
    use phalanx_nn::burn::nn::{Linear, LinearConfig};
    use std::time::{Duration, Instant};

    fn strategy(server: &Server) -> Result<Strategy> {
        Strategy::parameter_server_on(server, ParameterServerOptions::default())
    }

    fn model() -> Linear {
        LinearConfig::new(2, 1).init(&phalanx_nn::default_device())
    }

    fn quiet() -> ServerOptions {
        ServerOptions { build: Some("test".into()), ..ServerOptions::default() }
    }

    /// Polls a condition that nothing signals; returns whether it came true.
    fn until(holds: impl Fn() -> bool) -> bool {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !holds() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        holds()
    }

    /// A chief that ends the job waits for trainers at work. Workers without steps have left, and it need not wait.
    #[test]
    fn workers_leave_when_their_coordinator_is_done() -> Result<()> {
        let cluster = MiniCluster::start_with(1, 2, quiet())?;
        std::thread::scope(|scope| {
            let run = |server| {
                let part = move || strategy(server)?.coordinate(model(), "sgd", StepFunctions::new(), |_| Ok(false));
                scope.spawn(part)
            };
            let workers: Vec<_> = cluster.trainers()[1..].iter().map(run).collect();
            let chief = &cluster.trainers()[0];
            let strategy = strategy(chief)?;
            let servers = strategy.parameter_servers()?;
            let mut own = servers.connect(strategy.supervisor("sgd")?)?;
            let joined = own.call(ProgramModel::of(model()), StepFunctions::new(), |coordinator| {
                Ok(until(|| coordinator.workers().len() == 2 && chief.has_trainers()))
            });
            let idle = until(|| !chief.has_trainers());
            drop(own);
            assert!(joined?.is_some_and(|(joined, _)| joined) && idle, "they have joined, and left: {idle}");
            for worker in workers {
                let same = worker.join().expect("it does not panic")?;
                assert_eq!(same, Some(true), "every task returns the chief's result");
            }
            Ok(())
        })
    }

    #[test]
    fn a_job_has_one_model_and_a_coordinator_needs_servers() -> Result<()> {
        let steps = StepFunctions::<Linear>::new;
        let error = Strategy::default().coordinate(model(), "sgd", steps(), |_| Ok(())).unwrap_err();
        assert_eq!((error.code(), error.what()), (Code::BadSetting, "DefaultStrategy has no coordinator"));
        let alone = || {
            Strategy::parameter_server(
                &phalanx_cluster::TaskConfig::local(),
                &quiet(),
                ParameterServerOptions::default(),
            )
        };
        let (strategy, other) = (alone()?, alone()?);
        let error = strategy.coordinate(model(), other.supervisor("sgd")?, steps(), |_| Ok(())).unwrap_err();
        assert_eq!(error.what(), "the supervisor belongs to another task than the strategy");
        other.coordinate(model(), "sgd", steps(), |_| Ok(()))?;
        let error = other.coordinate(model(), "sgd", steps(), |_| Ok(())).unwrap_err();
        assert_eq!(error.what(), "a job with parameter servers trains one model");
        Ok(())
    }
}
