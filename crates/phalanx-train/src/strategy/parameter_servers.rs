//! Variables on parameter servers: the settings, and this process's task.

use super::{Kind, Strategy, StrategyTask};
use crate::coordinator::OnServers;
use crate::{BoundedStaleness, Server, ServerOptions, Supervisor, SyncReplicas, local};
use phalanx_base::{Code, Error, Result, Role};
use phalanx_cluster::TaskConfig;
use phalanx_cluster::schedule::{Consistency, SchedulerOptions};
use phalanx_nn::Slots;
use phalanx_nn::burn::module::Module;
use phalanx_optim::Optimizer;
use phalanx_ps::{Partitioner, Placement};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The settings of [`Strategy::parameter_server`].
///
/// ```
/// use phalanx_train::ParameterServerOptions;
/// let options = ParameterServerOptions {
///     consistency: "ssp:2".into(),
///     model_dir: Some("runs/line".into()),
///     ..ParameterServerOptions::default()
/// };
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
pub struct ParameterServerOptions {
    /// `async` (no bound, the default), `ssp:K` (no worker is more than K steps ahead of the slowest), `sync` or
    /// `sync:BACKUPS` (an update is the mean of one step of each worker, less BACKUPS that are not waited for).
    pub consistency: String,
    /// How variables are split into shards; TensorFlow's `variable_partitioner`.
    pub partitioner: Partitioner,
    /// How variables and tables are placed on servers, and which are pinned to one.
    pub placement: Placement,
    /// The run directory, where the chief saves and restores checkpoints and writes summaries; by default the one that
    /// `TF_CONFIG` names, or that a launcher offers. Without one nothing is saved, and a lost parameter server ends the job.
    pub model_dir: Option<String>,
    /// How many attempts a step has, where workers are lost with it, before it fails.
    pub attempts: usize,
    /// After how long at one step a worker is logged as stalled; `None`: never.
    pub watchdog: Option<Duration>,
    /// How many steps may be unfinished before [`Coordinator::schedule`](crate::Coordinator::schedule) waits.
    pub queue_steps: usize,
    /// How many bytes the arguments of unfinished steps may take before it waits.
    pub queue_bytes: usize,
}

impl Default for ParameterServerOptions {
    fn default() -> Self {
        let scheduler = SchedulerOptions::default();
        Self {
            consistency: "async".to_owned(),
            partitioner: Partitioner::default(),
            placement: Placement::default(),
            model_dir: None,
            attempts: scheduler.attempts,
            watchdog: scheduler.watchdog,
            queue_steps: scheduler.steps,
            queue_bytes: scheduler.bytes,
        }
    }
}

/// This process's task in a job with parameter servers.
pub(crate) struct ParameterServers {
    server: Server,
    /// The worker of a job that is this process alone.
    companion: Option<Server>,
    /// Whether the job has its model.
    has_model: AtomicBool,
    consistency: Consistency,
    options: ParameterServerOptions,
}

impl Strategy {
    /// Variables on the parameter servers of a cluster; workers compute. Starts this process's task: a parameter server
    /// serves from now on, whatever else its program does. Without a cluster, this process is a job of its own.
    ///
    /// Every task runs the same program: `fit` and `evaluate` return the same logs in all of them, when the chief has
    /// completed them. The job ends when the chief drops its model.
    ///
    /// ```
    /// use phalanx_cluster::TaskConfig;
    /// use phalanx_data::Column;
    /// use phalanx_nn::model::{Dense, Sequential};
    /// use phalanx_optim::Sgd;
    /// use phalanx_train::fit::{Compile, Fit, Verbose};
    /// use phalanx_train::{ParameterServerOptions, ServerOptions, Strategy};
    /// let options = ParameterServerOptions::default();
    /// let strategy = Strategy::parameter_server(&TaskConfig::local(), &ServerOptions::default(), options)?;
    /// let model = strategy.scope(|| Sequential::new().add(Dense::new(1)).build([1]))?;
    /// let mut model = model.compile(Sgd::new(0.2), "mse", ["mae"])?;
    /// let x = Column::f32((0..64).map(|i| i as f32 / 64.0).collect()).with_row_shape([1])?;
    /// let y = Column::f32((0..64).map(|i| 3.0 * i as f32 / 64.0 + 1.0).collect());
    /// let history = model.fit((x, y), Fit::epochs(20).batch_size(8).verbose(Verbose::Silent))?;
    /// assert!(history.last("loss")? < 0.1);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails if a setting cannot be used or the task's port is taken.
    pub fn parameter_server(
        config: &TaskConfig,
        options: &ServerOptions,
        settings: ParameterServerOptions,
    ) -> Result<Self> {
        let (server, companion) = if config.is_local() {
            let (chief, worker) = local::start_with_worker(options.clone())?;
            (chief, Some(worker))
        } else {
            (Server::start_with(config.clone(), options.clone())?, None)
        };
        Self::with_server(server, companion, settings)
    }

    /// As [`Strategy::parameter_server`], for a task that is already started, such as one of a
    /// [`MiniCluster`](crate::MiniCluster).
    ///
    /// # Errors
    /// As [`Strategy::parameter_server`].
    pub fn parameter_server_on(server: &Server, settings: ParameterServerOptions) -> Result<Self> {
        Self::with_server(server.clone(), None, settings)
    }

    fn with_server(server: Server, companion: Option<Server>, options: ParameterServerOptions) -> Result<Self> {
        let workers = server.config().trainers().len().saturating_sub(1).max(1);
        let consistency = Consistency::parse(&options.consistency, workers as u64)?;
        let interrupt = server.options().interrupt.clone();
        let device = phalanx_nn::default_device();
        let has_model = AtomicBool::new(false);
        let servers = ParameterServers { server, companion, has_model, consistency, options };
        let strategy =
            Self::with_slots(Slots::one(), Kind::ParameterServer, vec![device.clone()], device, None, Some(servers));
        Ok(Self { interrupt, ..strategy })
    }
}

impl ParameterServers {
    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    /// Returns how many steps of workers make an update.
    pub(crate) fn round(&self) -> u64 {
        match self.consistency {
            Consistency::Rounds { size, .. } => size.max(1),
            Consistency::Async | Consistency::Bounded(_) => 1,
        }
    }

    /// Returns this trainer's index, and the number of trainers that take steps of their own in a custom loop: the chief
    /// is one of them.
    pub(crate) fn trainers(&self) -> (usize, usize) {
        match &self.companion {
            // The worker beside the chief runs no program.
            Some(_) => (0, 1),
            None => {
                let config = self.server.config();
                (config.trainer_index().unwrap_or(0), config.trainers().len())
            }
        }
    }

    /// Returns how many trainers' steps make an update in a custom loop.
    pub(crate) fn in_sync(&self) -> usize {
        match self.consistency {
            Consistency::Rounds { .. } => self.trainers().1,
            Consistency::Async | Consistency::Bounded(_) => 1,
        }
    }

    /// Returns whether this task has batches to read: parameter servers have none, and nobody has when the job is over.
    pub(crate) fn reads(&self) -> bool {
        self.server.task().role != Role::Ps && !self.server.should_stop()
    }

    /// Returns the number of workers in the cluster spec.
    pub(crate) fn workers(&self) -> usize {
        self.server.config().trainers().len().saturating_sub(1)
    }

    pub(crate) fn is_first(&self) -> bool {
        self.server.is_chief()
    }

    /// Returns a supervisor of this task with the strategy's settings.
    pub(crate) fn supervisor(&self, optimizer: Optimizer) -> Result<Supervisor> {
        let supervisor = Supervisor::new(&self.server, optimizer)
            .moving_averages(true)
            .partitioner(self.options.partitioner)
            .placement(self.options.placement.clone());
        let supervisor = match self.consistency {
            Consistency::Async => supervisor,
            Consistency::Bounded(steps) => supervisor.bounded(BoundedStaleness { steps }),
            Consistency::Rounds { backups, .. } => {
                let replicas = (self.in_sync() as u64).saturating_sub(backups).max(1);
                supervisor.sync(SyncReplicas { replicas_to_aggregate: u32::try_from(replicas).ok() })
            }
        };
        let config = self.server.config();
        match self.options.model_dir.as_deref().or(config.model_dir()).or(config.output_dir()) {
            Some(location) => supervisor.logdir(location),
            None => Ok(supervisor),
        }
    }

    /// Claims the job for a model.
    fn claim(&self) -> Result<()> {
        if self.has_model.swap(true, Ordering::AcqRel) {
            return Err(Error::new(Code::BadSetting, "a job with parameter servers trains one model")
                .because("the servers hold the variables of another one")
                .help("put both networks into one model, or train them in two jobs"));
        }
        Ok(())
    }

    /// Returns whether this process's task is the one that `task` names.
    pub(super) fn is_task(&self, task: &TaskConfig) -> bool {
        match &self.companion {
            Some(_) => task.is_local(),
            None => task.task() == Some(self.server.task()) && task.job_id() == self.server.config().job_id(),
        }
    }

    /// Hands the task over to a training loop in which all trainers, the chief among them, take steps of their own.
    pub(super) fn hand_over(&self) -> Result<StrategyTask> {
        self.claim()?;
        let trainers = self.trainers().1;
        let consistency = Consistency::parse(&self.options.consistency, trainers as u64)?;
        if let Some(worker) = &self.companion {
            // The job forms with this worker, and needs it no longer.
            self.server.wait_until_formed()?;
            worker.leave(None);
        }
        Ok(StrategyTask::Servers { server: self.server.clone(), consistency, trainers })
    }

    /// Connects a model to the job.
    pub(crate) fn connect<M: Module>(&self, supervisor: Supervisor) -> Result<OnServers<M>> {
        self.claim()?;
        let options = SchedulerOptions {
            consistency: self.consistency,
            attempts: self.options.attempts,
            watchdog: self.options.watchdog,
            steps: self.options.queue_steps,
            bytes: self.options.queue_bytes,
        };
        let beside = self.companion.as_ref().map(|worker| supervisor.for_task(worker));
        let own = OnServers::new(supervisor, options);
        Ok(match beside {
            Some(beside) => own.with_companion(OnServers::new(beside, options)),
            None => own,
        })
    }
}
