//! A job with a coordinator: the part of each task.

use super::{Call, Coordinator, StepFunctions, worker};
use crate::job_state::HeartbeatWriter;
use crate::{Server, Supervisor};
use phalanx_base::{Code, Error, Result, Role};
use phalanx_cluster::schedule::{Consistency, SchedulerOptions};
use phalanx_nn::burn::module::Module;
use std::time::Duration;

/// TensorFlow's `ParameterServerStrategy` with its `ClusterCoordinator`: variables on parameter servers, and a coordinator that
/// hands steps to workers.
///
/// Every task runs the same program. Parameter servers serve, workers wait for steps, and the chief runs the function
/// that is given to [`run`](Self::run).
///
/// ```no_run
/// use phalanx_nn::burn::{nn::LinearConfig, tensor::Tensor};
/// use phalanx_optim::Sgd;
/// use phalanx_train::{ParameterServerStrategy, Server, ServerOptions, StepFunctions, Supervisor};
/// # fn job(config: phalanx_cluster::TaskConfig) -> phalanx_base::Result<()> {
/// let server = Server::start_with(config, ServerOptions::from_env()?)?;
/// let mut steps = StepFunctions::new();
/// let train = steps.register(|cx, scale: f32| {
///     cx.minimize(|model: &phalanx_nn::burn::nn::Linear| {
///         model.forward(Tensor::<2>::ones([4, 2], &phalanx_nn::default_device()) * scale).mean()
///     })
/// });
/// let model = LinearConfig::new(2, 1).init(&phalanx_nn::default_device());
/// let strategy = ParameterServerStrategy::new(Supervisor::new(&server, Sgd::new(0.1)));
/// strategy.run(model, steps, |coordinator| {
///     for _ in 0..100 {
///         coordinator.schedule(&train, 0.5)?;
///     }
///     coordinator.join()
/// })?;
/// # Ok(())
/// # }
/// ```
pub struct ParameterServerStrategy {
    supervisor: Supervisor,
    options: SchedulerOptions,
}

impl ParameterServerStrategy {
    /// Creates a strategy. The supervisor has the settings of variables: placement, partitioner, tables, run directory.
    #[must_use]
    pub fn new(supervisor: Supervisor) -> Self {
        if let Some(chief) = supervisor.server().chief() {
            chief.take_any_workers();
        }
        Self { supervisor, options: SchedulerOptions::default() }
    }

    /// Sets the consistency: `async` (no bound, the default), `ssp:K` (no worker is more than K steps ahead of the slowest), `sync`
    /// or `sync:BACKUPS` (one update is the mean of the gradients of as many steps as there are workers, less BACKUPS that are
    /// not waited for).
    ///
    /// # Errors
    /// When the text is none of those.
    pub fn consistency(mut self, consistency: &str) -> Result<Self> {
        let workers = self.supervisor.server().config().trainers().len().saturating_sub(1);
        self.options.consistency = Consistency::parse(consistency, workers as u64)?;
        Ok(self)
    }

    /// Sets how many steps may be unfinished, and how many bytes their arguments may take, before `schedule` waits.
    #[must_use]
    pub fn queue(mut self, steps: usize, bytes: usize) -> Self {
        (self.options.steps, self.options.bytes) = (steps, bytes);
        self
    }

    /// Sets how often a step is tried, where workers are lost with it, before it fails.
    #[must_use]
    pub fn attempts(mut self, attempts: usize) -> Self {
        self.options.attempts = attempts;
        self
    }

    /// Sets after how long at one step a worker is logged as stalled; never unless set.
    #[must_use]
    pub fn watchdog(mut self, longest: Duration) -> Self {
        self.options.watchdog = Some(longest);
        self
    }

    /// Runs this task's part until the job is over. The chief runs `coordinate`, ends the job with its result, and returns it;
    /// other tasks return `None`.
    ///
    /// # Errors
    /// What `coordinate` returns, and when the job does not form or fails.
    pub fn run<M: Module, T>(
        self,
        model: M,
        steps: StepFunctions<M>,
        coordinate: impl FnOnce(&mut Coordinator<M>) -> Result<T>,
    ) -> Result<Option<T>> {
        let server = self.supervisor.server().clone();
        match server.task().role {
            Role::Ps => server.join().map(|()| None),
            _ if server.is_chief() => self.lead(&server, model, steps, coordinate).map(Some),
            _ => self.serve(&server, model, &steps).map(|()| None),
        }
    }

    fn lead<M: Module, T>(
        &self,
        server: &Server,
        model: M,
        steps: StepFunctions<M>,
        coordinate: impl FnOnce(&mut Coordinator<M>) -> Result<T>,
    ) -> Result<T> {
        if server.config().trainers().len() < 2 {
            let error = Error::new(Code::BadSetting, "a coordinator needs workers")
                .because("the cluster has a chief and no worker")
                .help("add a worker job to the cluster");
            server.leave(Some(&error));
            return Err(error);
        }
        let rounds = matches!(self.options.consistency, Consistency::Rounds { .. });
        let session = self.supervisor.prepare_coordinated(model, rounds)?.coordinated();
        let call = Call { number: 1, steps_before: 0 };
        let mut coordinator = server.record_failure(Coordinator::start(server, session, steps, self.options, call))?;
        // For evaluators, which only follow the checkpoints.
        let heartbeat = self.supervisor.kept_in().map(HeartbeatWriter::start).transpose()?;
        let done = coordinate(&mut coordinator);
        // A program that was asked to stop saves; after a mistake nothing is worth saving.
        let asked = |error: &Error| matches!(error.code(), Code::Interrupted | Code::Terminated);
        let saves = done.as_ref().err().is_none_or(asked);
        let stopped =
            coordinator.finish().and_then(|session| if saves { self.supervisor.stop(session) } else { Ok(()) });
        let done = done.and_then(|done| stopped.map(|()| done));
        if let Err(error) = &done {
            server.leave(Some(error));
        }
        let ended = heartbeat.map_or(Ok(()), |heartbeat| heartbeat.end(done.as_ref().err()));
        done.and_then(|done| ended.map(|()| done))
    }

    fn serve<M: Module>(&self, server: &Server, model: M, steps: &StepFunctions<M>) -> Result<()> {
        let mut session = self.supervisor.prepare_coordinated(model, false)?.coordinated();
        let served = server.record_failure(worker::serve(server, &mut session, steps, 1, &[]));
        if let Err(error) = &served {
            server.leave(Some(error));
            return served;
        }
        // The chief ends the job, and does not wait for those that are done.
        server.set_done();
        server.join()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MiniCluster, ServerOptions};
    use phalanx_nn::burn::nn::{Linear, LinearConfig};
    use phalanx_optim::Sgd;
    use std::time::Instant;

    fn strategy(server: &Server) -> ParameterServerStrategy {
        ParameterServerStrategy::new(Supervisor::new(server, Sgd::new(0.1)))
    }

    fn model() -> Linear {
        LinearConfig::new(2, 1).init(&phalanx_nn::default_device())
    }

    /// Polls a condition that nothing signals; returns whether it came true.
    fn until(holds: impl Fn() -> bool) -> bool {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !holds() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        holds()
    }

    /// A chief that ends the job waits for trainers at work. Workers without steps are done, and it need not wait.
    #[test]
    fn workers_are_done_when_their_coordinator_is() -> Result<()> {
        let options = ServerOptions { build: Some("test".into()), ..ServerOptions::default() };
        let cluster = MiniCluster::start_with(1, 2, options)?;
        std::thread::scope(|scope| {
            let run = |server| scope.spawn(move || strategy(server).run(model(), StepFunctions::new(), |_| Ok(())));
            let workers: Vec<_> = cluster.trainers()[1..].iter().map(run).collect();
            let chief = &cluster.trainers()[0];
            let strategy = strategy(chief);
            let session = strategy.supervisor.prepare_coordinated(model(), false)?.coordinated();
            let call = Call { number: 1, steps_before: 0 };
            let coordinator = Coordinator::start(chief, session, StepFunctions::new(), strategy.options, call)?;
            let joined = until(|| coordinator.workers().len() == 2 && chief.has_trainers());
            let session = coordinator.finish()?;
            let idle = until(|| !chief.has_trainers());
            strategy.supervisor.stop(session)?;
            assert!(joined && idle, "joined: {joined}, then idle: {idle}");
            workers.into_iter().try_for_each(|worker| worker.join().expect("it does not panic").map(drop))
        })
    }
}
