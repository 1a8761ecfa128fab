//! Where variables live, and how gradients become updates.
//!
//! A [`Strategy`] decides only that; model, input and loop stay as they are. [`Strategy::scope`] gives a model to it,
//! [`Strategy::run`] computes a step on every replica, [`Strategy::reduce`] makes one value of theirs.

mod ignored;
mod input;
mod named;
mod per_replica;
mod reduce;
mod replica;
mod replicated;
mod update;
mod workers;

pub use input::{DistributedDataset, DistributedSteps};
pub use per_replica::{PerReplica, Reducible};
pub use replica::{Gradient, Replica};
pub use replicated::Replicated;

pub(crate) use input::with_rows;
pub(crate) use replica::{Computed, seed_of};
pub(crate) use workers::Workers;

use crate::{ClusterResolver, Interrupt, ServerOptions, TfConfigClusterResolver};
use phalanx_base::{Code, Error, Result};
use phalanx_cluster::TaskConfig;
use phalanx_data::InputContext;
use phalanx_nn::burn::tensor::Device;
use phalanx_nn::{Network, Slots};
use std::sync::{Arc, OnceLock};

/// How a model is spread. Cheap to clone.
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
    /// Whether somebody asked this process to stop.
    interrupt: Interrupt,
}

struct Shared {
    kind: Kind,
    /// One for each replica of this process.
    devices: Vec<Device>,
    /// Where the variables live.
    home: Device,
    slots: Slots,
    workers: Option<Workers>,
    /// Set when this process may train by itself, whatever `TF_CONFIG` says.
    may_train: OnceLock<()>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Default,
    OneDevice,
    Mirrored,
    CentralStorage,
    MultiWorkerMirrored,
}

impl Default for Strategy {
    /// No distribution: one replica on the CPU.
    fn default() -> Self {
        let device = phalanx_nn::default_device();
        Self::with_slots(Slots::one(), Kind::Default, vec![device.clone()], device, None)
    }
}

impl Strategy {
    /// Everything on one device: `cpu`, `vulkan:0`, `cuda:0`.
    ///
    /// # Errors
    /// When there is no such device.
    pub fn one_device(device: &str) -> Result<Self> {
        let device = phalanx_nn::device(device)?;
        Self::of(Kind::OneDevice, vec![device.clone()], device, None)
    }

    /// A replica on each device, all with the same values; gradients are summed. Slots of the processor are devices
    /// too: `cpu:0`, `cpu:1` share its threads and, since they have the same memory, one copy of the values.
    ///
    /// # Errors
    /// When a device does not exist or is listed twice.
    pub fn mirrored<'a>(devices: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        let devices = distinct(devices)?;
        let home = devices[0].clone();
        Self::of(Kind::Mirrored, devices, home, None)
    }

    /// Replicas on the devices, values in one place: on the only device, else in the processor's memory.
    ///
    /// # Errors
    /// When a device does not exist or is listed twice.
    pub fn central_storage<'a>(devices: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        let devices = distinct(devices)?;
        let home = if devices.len() == 1 { devices[0].clone() } else { phalanx_nn::default_device() };
        Self::of(Kind::CentralStorage, devices, home, None)
    }

    /// A replica in each process of a cluster of workers, all with the same values. Returns when every worker has
    /// come; without a cluster this process is the only one. The chief, or the first worker where there is none, leads.
    ///
    /// # Errors
    /// When this task is no trainer, its port cannot be used, or the workers do not come before the deadline.
    pub fn multi_worker_mirrored(config: &TaskConfig, options: &ServerOptions) -> Result<Self> {
        Self::multi_worker_mirrored_on(["cpu:0"], config, options)
    }

    /// The same with several replicas in each process, or on other devices; every process has equally many.
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
        let workers = Workers::join(config, options)?;
        let strategy = Self::of(Kind::MultiWorkerMirrored, devices, home, workers)?;
        Ok(Self { interrupt: options.interrupt.clone(), ..strategy })
    }

    fn of(kind: Kind, devices: Vec<Device>, home: Device, workers: Option<Workers>) -> Result<Self> {
        Ok(Self::with_slots(Slots::new(devices.len())?, kind, devices, home, workers))
    }

    fn with_slots(slots: Slots, kind: Kind, devices: Vec<Device>, home: Device, workers: Option<Workers>) -> Self {
        let shared = Shared { kind, devices, home, slots, workers, may_train: OnceLock::new() };
        Self { shared: Arc::new(shared), interrupt: Interrupt::default() }
    }

    /// Lets this process train a model by itself although `TF_CONFIG` may name a cluster: every task of that cluster then
    /// trains a model of its own. Without it, training fails where a strategy ignores its cluster.
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

    /// Fails where `TF_CONFIG` names a cluster that this strategy would ignore. Called before training; reads once.
    pub(crate) fn check_cluster(&self) -> Result<()> {
        if self.workers().is_none() && self.shared.may_train.get().is_none() {
            ignored::check(self.name(), &TfConfigClusterResolver.resolve()?)?;
            let _ = self.shared.may_train.set(());
        }
        Ok(())
    }

    /// TensorFlow's name of the strategy.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self.shared.kind {
            Kind::Default => "DefaultStrategy",
            Kind::OneDevice => "OneDeviceStrategy",
            Kind::Mirrored => "MirroredStrategy",
            Kind::CentralStorage => "CentralStorageStrategy",
            Kind::MultiWorkerMirrored => "MultiWorkerMirroredStrategy",
        }
    }

    /// How many replicas compute one step together, over all workers.
    #[must_use]
    pub fn num_replicas_in_sync(&self) -> usize {
        self.local_replicas() * self.workers().map_or(1, Workers::size)
    }

    /// Whether this process writes checkpoints and summaries: the only one, the chief, or the first worker.
    #[must_use]
    pub fn should_checkpoint(&self) -> bool {
        self.workers().is_none_or(|workers| workers.rank() == 0)
    }

    /// Makes a model whose variables this strategy keeps. Every worker starts with the values of the first.
    ///
    /// # Errors
    /// What `make` returns, and when a worker is lost.
    pub fn scope<M: Network>(&self, make: impl FnOnce() -> Result<M>) -> Result<Replicated<M>> {
        Replicated::new(self.clone(), make()?)
    }

    /// One value for each replica of this process, from its number among all replicas.
    ///
    /// # Errors
    /// What `make` returns.
    pub fn values_from_function<T>(&self, mut make: impl FnMut(usize) -> Result<T>) -> Result<PerReplica<T>> {
        let first = self.first_replica();
        let values = (0..self.local_replicas()).map(|place| Ok((place, make(first + place)?)));
        values.collect::<Result<Vec<_>>>().map(PerReplica::new)
    }

    /// Which of how many input pipelines this process has.
    #[must_use]
    pub fn input_context(&self) -> InputContext {
        let (rank, size) = self.workers().map_or((0, 1), |workers| (workers.rank(), workers.size()));
        InputContext {
            num_input_pipelines: size,
            input_pipeline_id: rank,
            num_replicas_in_sync: self.num_replicas_in_sync(),
        }
    }

    pub(crate) fn local_replicas(&self) -> usize {
        self.shared.devices.len()
    }

    /// The number of this process's first replica among all.
    pub(crate) fn first_replica(&self) -> usize {
        self.local_replicas() * self.workers().map_or(0, Workers::rank)
    }

    /// The request to stop, if somebody made one of this process.
    pub(crate) fn interrupted(&self) -> Option<Error> {
        self.interrupt.error()
    }

    pub(crate) fn workers(&self) -> Option<&Workers> {
        self.shared.workers.as_ref()
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
            .help("slots of the processor are numbered: cpu:0, cpu:1"));
    }
    names.into_iter().map(phalanx_nn::device).collect()
}
