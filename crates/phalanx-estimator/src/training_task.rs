//! This task's place in a training.

use crate::RunConfig;
use crate::distribution::Distribution;
use phalanx_base::{Error, Result};
use phalanx_cluster::TaskConfig;
use phalanx_data::InputContext;
use phalanx_train::{Server, ServerOptions, StrategyChoice, StrategyTask, WorkerGroup};
use std::sync::Arc;

/// The server that reaches or holds the model, and the workers that this task steps with.
pub(crate) struct TrainingTask {
    pub(crate) server: Server,
    pub(crate) workers: Option<Arc<WorkerGroup>>,
    pub(crate) distribution: Distribution,
    /// How many trainers send updates to the server.
    pub(crate) trainers: usize,
}

impl TrainingTask {
    /// Starts the task that `config` names. Workers that step together wait for each other here.
    pub(crate) fn start(config: &RunConfig) -> Result<Self> {
        let options = config.patience();
        let (distribution, workers) = match &config.train_distribute {
            Some(StrategyChoice::Given(strategy)) => match strategy.hand_over(&config.task)? {
                StrategyTask::Servers { server, consistency, trainers } => {
                    let distribution = Distribution::Servers(consistency);
                    return Ok(Self { server, workers: None, distribution, trainers });
                }
                StrategyTask::Workers { group, replicas } => (Distribution::Workers(replicas), group),
                StrategyTask::Replicas(replicas) => (Distribution::Replicas(replicas), None),
            },
            named => {
                let distribution = Distribution::named(name_of(named.as_ref()), &config.task)?;
                let joins = matches!(distribution, Distribution::Workers(_));
                let workers = if joins { WorkerGroup::join(&config.task, &options)? } else { None };
                (distribution, workers.map(Arc::new))
            }
        };
        let server = if matches!(distribution, Distribution::Workers(_)) {
            // Every worker holds the model in its own process.
            let known_as = config.task.task().filter(|_| workers.is_some());
            Server::start_with(TaskConfig::local(), ServerOptions { known_as, ..options })?
        } else {
            Server::start_with(config.task.clone(), options)?
        };
        let trainers = server.config().trainers().len();
        Ok(Self { server, workers, distribution, trainers })
    }

    /// Serves as the parameter server that `config` names, until the job is over.
    pub(crate) fn serve(config: &RunConfig) -> Result<()> {
        let server = match &config.train_distribute {
            Some(StrategyChoice::Given(_)) => Self::start(config)?.server,
            // A parameter server does not need the model.
            _ => Server::start_with(config.task.clone(), config.patience())?,
        };
        server.join()
    }

    /// Returns whether this task saves, writes summaries and ends the job.
    pub(crate) fn is_chief(&self) -> bool {
        self.rank().map_or_else(|| self.server.is_chief(), |rank| rank == 0)
    }

    /// Returns whether this is the only task that sends updates to its server.
    pub(crate) fn is_alone(&self) -> bool {
        self.workers.is_none() && self.trainers == 1
    }

    fn rank(&self) -> Option<usize> {
        self.workers.as_ref().map(|workers| workers.rank())
    }

    /// Returns the number of this process's first replica among those of all workers.
    pub(crate) fn first_replica(&self) -> usize {
        self.rank().unwrap_or(0) * self.distribution.replicas()
    }

    /// Returns this task's share of the input.
    pub(crate) fn input_context(&self) -> Result<InputContext> {
        let context = match &self.workers {
            Some(workers) => InputContext {
                num_input_pipelines: workers.size(),
                input_pipeline_id: workers.rank(),
                num_replicas_in_sync: workers.size(),
            },
            None => InputContext {
                num_input_pipelines: self.trainers,
                num_replicas_in_sync: self.trainers,
                ..self.server.input_context()?
            },
        };
        let num_replicas_in_sync = context.num_replicas_in_sync * self.distribution.replicas();
        Ok(InputContext { num_replicas_in_sync, ..context })
    }

    /// Runs `f` in the task's log scope.
    pub(crate) fn in_scope<T>(&self, f: impl FnOnce() -> T) -> T {
        match &self.workers {
            Some(workers) => workers.in_scope(f),
            None => self.server.in_scope(f),
        }
    }

    /// Leaves the job. The other workers fail with `failure`.
    pub(crate) fn leave(&self, failure: Option<&Error>) {
        if let (Some(workers), Some(error)) = (&self.workers, failure) {
            workers.abort(error);
        }
        self.server.leave(failure);
    }
}

fn name_of(choice: Option<&StrategyChoice>) -> &str {
    if let Some(StrategyChoice::Named(name)) = choice { name } else { "auto" }
}
