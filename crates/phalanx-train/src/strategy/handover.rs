//! What a strategy has started in this process, handed over to a training loop of another kind.

use super::{Kind, Strategy, WorkerGroup};
use crate::Server;
use phalanx_base::{Code, Error, Result, Role};
use phalanx_cluster::TaskConfig;
use phalanx_cluster::schedule::Consistency;
use std::sync::Arc;

/// What a strategy has started in this process, for training loops that compute and exchange gradients themselves, as
/// estimators do.
pub enum StrategyTask {
    /// Replicas of this process, which nothing was started for: how many.
    Replicas(usize),
    /// Workers that step together.
    Workers {
        /// The group; `None` if this process is the only worker.
        group: Option<Arc<WorkerGroup>>,
        /// The replicas of every process.
        replicas: usize,
    },
    /// A task of a job with parameter servers.
    Servers {
        /// The task.
        server: Server,
        /// How far the trainers may drift apart.
        consistency: Consistency,
        /// How many trainers there are.
        trainers: usize,
    },
}

/// A strategy by its [name](phalanx_cluster::StrategyName), or as a value.
#[derive(Clone, Debug)]
pub enum StrategyChoice {
    /// The strategy of this name, which is started when it is needed.
    Named(String),
    /// This strategy. One with parameter servers, or of several workers, has started this process's task.
    Given(Strategy),
}

impl From<Strategy> for StrategyChoice {
    fn from(strategy: Strategy) -> Self {
        Self::Given(strategy)
    }
}

impl<N: Into<String>> From<N> for StrategyChoice {
    fn from(name: N) -> Self {
        Self::Named(name.into())
    }
}

impl Strategy {
    /// Hands this process's task over to a training loop that computes and exchanges gradients itself, on the CPU. The loop
    /// ends the task. A task of a job with parameter servers is handed over once, because the job trains one model.
    ///
    /// # Errors
    /// Fails if the strategy was not made for `task`, is not on the CPU, or has a model already.
    pub fn hand_over(&self, task: &TaskConfig) -> Result<StrategyTask> {
        self.check_task(task)?;
        if let Some(servers) = self.servers() {
            return servers.hand_over();
        }
        let cpu = phalanx_nn::default_device();
        if self.devices().iter().any(|device| *device != cpu) {
            return Err(Error::new(
                Code::BadSetting,
                format!("{} computes on other devices than the CPU", self.name()),
            )
            .help("use CPU slots: cpu:0, cpu:1"));
        }
        let replicas = self.local_replicas();
        Ok(match self.shared.kind {
            Kind::MultiWorkerMirrored => StrategyTask::Workers { group: self.shared.workers.clone(), replicas },
            _ => StrategyTask::Replicas(replicas),
        })
    }

    /// Fails unless this strategy was made for `task`.
    fn check_task(&self, task: &TaskConfig) -> Result<()> {
        let is_its = match (self.servers(), self.workers()) {
            (Some(servers), _) => servers.is_task(task),
            (None, Some(workers)) => {
                (task.trainer_index(), task.trainers().len()) == (Some(workers.rank()), workers.size())
            }
            (None, None) => task.tasks().len() < 2 || task.task().is_some_and(|own| own.role == Role::Evaluator),
        };
        if is_its {
            return Ok(());
        }
        let own = task.task().map_or_else(|| "a job of one process".to_owned(), |own| own.to_string());
        Err(Error::new(Code::ConfigIgnored, format!("{} was not made for this task", self.name()))
            .at(format!("{own}, in a cluster of {} tasks", task.tasks().len()))
            .help("make both from the same TF_CONFIG: Strategy::from_env and RunConfig::from_env"))
    }
}
