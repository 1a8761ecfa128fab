//! Distribution strategies: where variables live, and how gradients become updates.
//!
//! Model, input and loop do not depend on the [`Strategy`]. [`Strategy::scope`] places a model, [`Strategy::run`]
//! computes a step on every replica, [`Strategy::reduce`] reduces the replicas' values to one.

mod coordinate;
mod coordinated;
mod gradient_buckets;
mod handover;
mod ignored;
mod input;
mod metrics;
mod named;
mod parameter_servers;
mod per_replica;
mod reduce;
mod replica;
mod replicated;
mod step_report;
mod update;
mod workers;

pub use coordinate::IntoSupervisor;
pub use coordinated::Coordinated;
pub use handover::{StrategyChoice, StrategyTask};
pub use input::{DistributedDataset, DistributedSteps};
pub use parameter_servers::ParameterServerOptions;
pub use per_replica::{PerReplica, Reducible};
pub use replica::{Gradient, Replica};
pub use replicated::Replicated;
pub use workers::WorkerGroup;

pub(crate) use input::with_rows;
pub(crate) use parameter_servers::ParameterServers;
pub(crate) use replica::{ReplicaUpdate, seed_of};

use crate::status::ProgressCounters;
use crate::{ClusterResolver, Interrupt, ServerOptions, TfConfigClusterResolver, open_run_dir};
use phalanx_base::{Code, Error, Result};
use phalanx_cluster::TaskConfig;
use phalanx_data::InputContext;
use phalanx_nn::burn::tensor::Device;
use phalanx_nn::{Network, ParameterRegistry, Slots};
use phalanx_storage::Dir;
use std::sync::{Arc, OnceLock};
use step_report::StepReport;

/// A distribution strategy. Cheap to clone.
///
/// ```
/// use phalanx_nn::model::{Dense, Sequential};
/// use phalanx_train::Strategy;
/// let strategy = Strategy::mirrored(["cpu:0", "cpu:1"])?;
/// assert_eq!(strategy.num_replicas_in_sync(), 2);
/// let model = strategy.scope(|| Sequential::new().add(Dense::new(1)).build([1]))?;
/// assert_eq!(model.module().count_params(), 2);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone)]
pub struct Strategy {
    shared: Arc<Shared>,
    /// Stops the training of this process.
    interrupt: Interrupt,
}

struct Shared {
    kind: Kind,
    /// One for each replica of this process.
    devices: Vec<Device>,
    /// Where the variables live.
    home: Device,
    slots: Slots,
    workers: Option<Arc<WorkerGroup>>,
    servers: Option<ParameterServers>,
    /// Set when this process may train alone, whatever `TF_CONFIG` says.
    may_train: OnceLock<()>,
    /// Set before the first training, unless a [`Server`](crate::Server) reports.
    report: OnceLock<StepReport>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Default,
    OneDevice,
    Mirrored,
    CentralStorage,
    MultiWorkerMirrored,
    ParameterServer,
}

impl Default for Strategy {
    /// No distribution: one replica on the CPU.
    fn default() -> Self {
        let device = phalanx_nn::default_device();
        Self::with_slots(Slots::one(), Kind::Default, vec![device.clone()], device, None, None)
    }
}

impl Strategy {
    /// Everything on one device: `cpu`, `vulkan:0`, `cuda:0`.
    ///
    /// # Errors
    /// Fails if there is no such device.
    pub fn one_device(device: &str) -> Result<Self> {
        let device = phalanx_nn::device(device)?;
        Self::of(Kind::OneDevice, vec![device.clone()], device, None)
    }

    /// A replica on each device, all with the same values; gradients are summed. CPU slots are devices too: `cpu:0` and
    /// `cpu:1` share the CPU's threads and one copy of the values.
    ///
    /// # Errors
    /// Fails if a device does not exist or is listed twice.
    pub fn mirrored<'a>(devices: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        let devices = distinct(devices)?;
        let home = devices[0].clone();
        Self::of(Kind::Mirrored, devices, home, None)
    }

    /// A replica on each device; the variables are on the device if there is only one, else in CPU memory.
    ///
    /// # Errors
    /// Fails if a device does not exist or is listed twice.
    pub fn central_storage<'a>(devices: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        let devices = distinct(devices)?;
        let home = if devices.len() == 1 { devices[0].clone() } else { phalanx_nn::default_device() };
        Self::of(Kind::CentralStorage, devices, home, None)
    }

    /// A replica in each worker of a cluster, all with the same values. Returns when every worker has joined; without a
    /// cluster this process is the only one. Rank 0 is the chief, or the first worker if there is none.
    ///
    /// # Errors
    /// Fails if this task is no trainer, its port cannot be used, or a worker does not join before the deadline.
    pub fn multi_worker_mirrored(config: &TaskConfig, options: &ServerOptions) -> Result<Self> {
        Self::multi_worker_mirrored_on(["cpu:0"], config, options)
    }

    /// As [`Strategy::multi_worker_mirrored`], with several replicas per process or on other devices. Every process must
    /// have the same number of replicas.
    ///
    /// # Errors
    /// As [`Strategy::multi_worker_mirrored`] and [`Strategy::mirrored`].
    pub fn multi_worker_mirrored_on<'a>(
        devices: impl IntoIterator<Item = &'a str>,
        config: &TaskConfig,
        options: &ServerOptions,
    ) -> Result<Self> {
        let devices = distinct(devices)?;
        let home = devices[0].clone();
        let workers = WorkerGroup::join(config, options)?;
        let strategy = Self::of(Kind::MultiWorkerMirrored, devices, home, workers)?;
        strategy.report_to(options, config);
        Ok(Self { interrupt: options.interrupt.clone(), ..strategy })
    }

    fn of(kind: Kind, devices: Vec<Device>, home: Device, workers: Option<WorkerGroup>) -> Result<Self> {
        Ok(Self::with_slots(Slots::new(devices.len())?, kind, devices, home, workers, None))
    }

    fn with_slots(
        slots: Slots,
        kind: Kind,
        devices: Vec<Device>,
        home: Device,
        workers: Option<WorkerGroup>,
        servers: Option<ParameterServers>,
    ) -> Self {
        let workers = workers.map(Arc::new);
        let shared = Shared {
            kind,
            devices,
            home,
            slots,
            workers,
            servers,
            may_train: OnceLock::new(),
            report: OnceLock::new(),
        };
        Self { shared: Arc::new(shared), interrupt: Interrupt::default() }
    }

    /// Allows this process to train alone even if `TF_CONFIG` names a cluster: every task of that cluster then trains a
    /// separate model. Without this call, training fails if the strategy would ignore the cluster.
    ///
    /// ```
    /// use phalanx_train::Strategy;
    /// let strategy = Strategy::one_device("cpu")?.ignoring_tf_config(); // one task of a search over learning rates
    /// # let _ = strategy;
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    #[must_use]
    pub fn ignoring_tf_config(self) -> Self {
        let _ = self.shared.may_train.set(());
        self
    }

    /// Begins a training: fails if `TF_CONFIG` names a cluster that this strategy would ignore, and reports the steps to the
    /// launcher from now on. Reads the environment once.
    pub(crate) fn begin_training(&self, registry: &ParameterRegistry) -> Result<()> {
        if self.servers().is_some() {
            return Ok(());
        }
        let (may_train, report) = (&self.shared.may_train, &self.shared.report);
        if self.is_within_process() && (may_train.get().is_none() || report.get().is_none()) {
            let config = TfConfigClusterResolver.resolve();
            if may_train.get().is_none() {
                ignored::check(self.name(), config.as_ref().map_err(Error::clone)?)?;
                let _ = may_train.set(());
            }
            report.get_or_init(|| StepReport::from_env(config.ok().and_then(|config| config.task())));
        }
        let workers = self.workers().map_or(1, WorkerGroup::size);
        report.get().map_or(Ok(()), |report| report.begin(registry, workers))
    }

    /// Reports the steps of the task of `config` where `options` say.
    fn report_to(&self, options: &ServerOptions, config: &TaskConfig) {
        let _ = self.shared.report.set(StepReport::new(options, config.task()));
    }

    /// Returns the counters of what this task reports; `None` before its first training, and where a
    /// [`Server`](crate::Server) has them.
    pub(crate) fn counters(&self) -> Option<&ProgressCounters> {
        self.shared.report.get().map(StepReport::counters)
    }

    /// Returns the run directory of a training in this process or its group, if this process writes there: the one that
    /// `TF_CONFIG` names, or that a launcher offers.
    pub(crate) fn run_dir(&self) -> Result<Option<Dir>> {
        let location = match self.workers() {
            Some(workers) => workers.run_dir().map(str::to_owned),
            None => {
                let config = TfConfigClusterResolver.resolve()?;
                let dir = config.model_dir().or(config.output_dir()).filter(|_| config.is_chief());
                dir.map(str::to_owned)
            }
        };
        location.filter(|_| self.should_checkpoint()).map(|location| open_run_dir(&location)).transpose()
    }

    /// Returns TensorFlow's name of the strategy.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self.shared.kind {
            Kind::Default => "DefaultStrategy",
            Kind::OneDevice => "OneDeviceStrategy",
            Kind::Mirrored => "MirroredStrategy",
            Kind::CentralStorage => "CentralStorageStrategy",
            Kind::MultiWorkerMirrored => "MultiWorkerMirroredStrategy",
            Kind::ParameterServer => "ParameterServerStrategy",
        }
    }

    /// Returns whether the strategy trains within this process, without other workers and without parameter servers.
    #[must_use]
    pub fn is_within_process(&self) -> bool {
        self.workers().is_none() && self.servers().is_none()
    }

    /// Returns the number of replicas whose gradients make one update: those of all workers; with parameter servers,
    /// the trainers of a synchronous round, and else 1.
    #[must_use]
    pub fn num_replicas_in_sync(&self) -> usize {
        match self.servers() {
            Some(servers) => servers.in_sync(),
            None => self.local_replicas() * self.workers().map_or(1, WorkerGroup::size),
        }
    }

    /// Returns whether this process writes checkpoints and summaries: only the chief, or the first worker, does.
    #[must_use]
    pub fn should_checkpoint(&self) -> bool {
        self.workers().is_none_or(|workers| workers.rank() == 0)
            && self.servers().is_none_or(ParameterServers::is_first)
    }

    /// Creates a model whose variables this strategy keeps. Every worker starts with the values of rank 0, or with those
    /// that the chief puts on the parameter servers.
    ///
    /// # Errors
    /// Fails if `make` does, or a worker is lost.
    pub fn scope<M: Network>(&self, make: impl FnOnce() -> Result<M>) -> Result<Replicated<M>> {
        Replicated::new(self.clone(), make()?)
    }

    /// Calls `make` with the id of each replica of this process, and returns the values.
    ///
    /// # Errors
    /// Returns the error of `make`.
    pub fn values_from_function<T>(&self, mut make: impl FnMut(usize) -> Result<T>) -> Result<PerReplica<T>> {
        let first = self.first_replica();
        let values = (0..self.local_replicas()).map(|place| Ok((place, make(first + place)?)));
        values.collect::<Result<Vec<_>>>().map(PerReplica::new)
    }

    /// Returns the index of this process's input pipeline and the number of all.
    #[must_use]
    pub fn input_context(&self) -> InputContext {
        let (rank, size) = match self.servers() {
            Some(servers) => servers.trainers(),
            None => self.workers().map_or((0, 1), |workers| (workers.rank(), workers.size())),
        };
        InputContext {
            num_input_pipelines: size,
            input_pipeline_id: rank,
            num_replicas_in_sync: self.num_replicas_in_sync(),
        }
    }

    pub(crate) fn local_replicas(&self) -> usize {
        self.shared.devices.len()
    }

    /// Returns the id of this process's first replica.
    pub(crate) fn first_replica(&self) -> usize {
        if let Some(servers) = self.servers() {
            return servers.trainers().0;
        }
        self.local_replicas() * self.workers().map_or(0, WorkerGroup::rank)
    }

    /// Returns this process's interruption, if any.
    pub(crate) fn interrupted(&self) -> Option<Error> {
        self.interrupt.error()
    }

    pub(crate) fn workers(&self) -> Option<&WorkerGroup> {
        self.shared.workers.as_deref()
    }

    pub(crate) fn servers(&self) -> Option<&ParameterServers> {
        self.shared.servers.as_ref()
    }

    pub(crate) fn devices(&self) -> &[Device] {
        &self.shared.devices
    }

    pub(crate) fn home(&self) -> &Device {
        &self.shared.home
    }

    pub(crate) fn slots(&self) -> &Slots {
        &self.shared.slots
    }
}

impl std::fmt::Debug for Strategy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({} replicas)", self.name(), self.num_replicas_in_sync())
    }
}

fn distinct<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Vec<Device>> {
    let names: Vec<&str> = names.into_iter().collect();
    if names.is_empty() {
        return Err(Error::new(Code::BadSetting, "a strategy needs at least one device").help("try [\"cpu:0\"]"));
    }
    if let Some(twice) = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
        return Err(Error::new(Code::BadSetting, format!("device {:?} is listed twice", twice.1))
            .help("CPU slots are numbered: cpu:0, cpu:1"));
    }
    names.into_iter().map(phalanx_nn::device).collect()
}
