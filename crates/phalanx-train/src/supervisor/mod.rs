//! TensorFlow's Supervisor: the chief initialises the model, the others wait for it, and all stop in order.

mod flags;
mod prepare;
mod stop;

use crate::checkpoint::SavePeriod;
use crate::checkpoint_options::CheckpointOptions;
use crate::summary::SummaryInterval;
use crate::{BoundedStaleness, NonFinite, Server, SyncReplicas, TableId, run_dir};
use phalanx_base::{Code, Error, Result};
use phalanx_optim::Optimizer;
use phalanx_ps::{Partitioner, Placement, TableSpec};
use phalanx_storage::Dir;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Supervises the training of one task.
///
/// ```
/// use phalanx_nn::burn::{nn::LinearConfig, tensor::Tensor};
/// use phalanx_optim::Sgd;
/// use phalanx_train::{Server, Supervisor};
/// let device = phalanx_nn::default_device();
/// let server = Server::local()?;
/// let supervisor = Supervisor::new(&server, Sgd::new(0.1));
/// let mut session = supervisor.prepare_or_wait_for_session(LinearConfig::new(2, 1).init(&device))?;
/// let batch = Tensor::<2>::ones([4, 2], &device);
/// while let Some(step) = session.step(|model| model.forward(batch.clone()).powf_scalar(2.0).mean())? {
///     if step.global_step >= 10 {
///         break;
///     }
/// }
/// supervisor.stop(session)?;
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone)]
pub struct Supervisor {
    server: Server,
    optimizer: Optimizer,
    optimizers: HashMap<String, Optimizer>,
    placement: Placement,
    partitioner: Partitioner,
    tables: Vec<TableSpec>,
    /// Whether tables are updated as variables are.
    tables_as_variables: bool,
    /// The first values of tables that have other rows than their initializers make.
    first_rows: Vec<(usize, Arc<Vec<f32>>)>,
    sync: Option<SyncReplicas>,
    bounded: Option<BoundedStaleness>,
    moving_averages: bool,
    overlap: bool,
    non_finite: NonFinite,
    ready_deadline: Duration,
    checkpoints: CheckpointOptions,
}

impl Supervisor {
    /// Creates a supervisor for this task; `optimizer` applies gradients to variables.
    #[must_use]
    pub fn new(server: &Server, optimizer: impl Into<Optimizer>) -> Self {
        Self {
            server: server.clone(),
            optimizer: optimizer.into(),
            optimizers: HashMap::new(),
            placement: Placement::default(),
            partitioner: Partitioner::default(),
            tables: Vec::new(),
            tables_as_variables: false,
            first_rows: Vec::new(),
            sync: None,
            bounded: None,
            moving_averages: false,
            overlap: false,
            non_finite: NonFinite::default(),
            ready_deadline: Duration::from_secs(7200),
            checkpoints: CheckpointOptions::default(),
        }
    }

    /// Sets an optimizer for the variable of this name.
    #[must_use]
    pub fn optimizer_of(mut self, variable: &str, optimizer: impl Into<Optimizer>) -> Self {
        self.optimizers.insert(variable.to_owned(), optimizer.into());
        self
    }

    /// Sets how variables and tables are placed on servers, and which are [pinned](Placement::pin) to one.
    ///
    /// ```
    /// use phalanx_optim::Sgd;
    /// use phalanx_ps::Placement;
    /// use phalanx_train::{Server, Supervisor};
    /// let placement = Placement::round_robin().pin("embeddings/*", 1);
    /// let supervisor = Supervisor::new(&Server::local()?, Sgd::new(0.1)).placement(placement);
    /// # let _ = supervisor;
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    #[must_use]
    pub fn placement(mut self, placement: Placement) -> Self {
        self.placement = placement;
        self
    }

    /// Sets how every variable is split.
    #[must_use]
    pub fn partitioner(mut self, partitioner: Partitioner) -> Self {
        self.partitioner = partitioner;
        self
    }

    /// Adds a table, and returns what steps name it by. Every task adds the same tables in the same order.
    ///
    /// ```
    /// use phalanx_nn::burn::nn::LinearConfig;
    /// use phalanx_optim::Sgd;
    /// use phalanx_ps::{TableSpec, plan::RowInitializer};
    /// use phalanx_train::{Server, Supervisor};
    /// let server = Server::local()?;
    /// let table = |name: &str| TableSpec {
    ///     name: name.into(), dim: 2, initializer: RowInitializer::constant(0.5), optimizer: Sgd::new(0.1).into(),
    /// };
    /// let mut supervisor = Supervisor::new(&server, Sgd::new(0.1));
    /// let (users, items) = (supervisor.table(table("users"))?, supervisor.table(table("items"))?);
    /// let mut session = supervisor.prepare_or_wait_for_session(LinearConfig::new(2, 1).init(&phalanx_nn::default_device()))?;
    /// session.step_with_rows(&[(items, &[3, 9]), (users, &[7, 7])], |model, rows| {
    ///     (model.forward(rows[0].lookup()) * model.forward(rows[1].lookup())).sum()
    /// })?;
    /// supervisor.stop(session)?;
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// When another table has the same name.
    pub fn table(&mut self, table: TableSpec) -> Result<TableId> {
        if self.tables.iter().any(|known| known.name == table.name) {
            return Err(Error::new(Code::VariableConflict, format!("two tables are called {:?}", table.name))
                .help("give each its own name"));
        }
        self.tables.push(table);
        Ok(TableId(self.tables.len() - 1))
    }

    /// Updates all tables as variables are updated: they take the learning rate of a step, and in synchronous training the
    /// mean over all gradients of a round.
    pub(crate) fn tables_as_variables(mut self) -> Self {
        self.tables_as_variables = true;
        self
    }

    /// Sets the first values of tables that have other rows than their initializers make. A restored model keeps its own.
    pub(crate) fn set_first_rows(&mut self, rows: Vec<(usize, Arc<Vec<f32>>)>) {
        self.first_rows = rows;
    }

    /// Trains synchronously.
    #[must_use]
    pub fn sync(mut self, sync: SyncReplicas) -> Self {
        self.sync = Some(sync);
        self
    }

    /// Trains asynchronously, but lets no trainer run far ahead of the slowest one.
    #[must_use]
    pub fn bounded(mut self, bound: BoundedStaleness) -> Self {
        self.bounded = Some(bound);
        self
    }

    /// Sets whether the servers keep parameters that need no gradient, such as the moving averages of batch normalization: as
    /// variables, which every step changes by as much as it changed them in its trainer. Otherwise each trainer has its own,
    /// and checkpoints have none.
    #[must_use]
    pub fn moving_averages(mut self, kept: bool) -> Self {
        self.moving_averages = kept;
        self
    }

    /// Sets whether every step's exchange with the servers overlaps with the computation of the step before: a trainer then
    /// never waits for its servers, and computes on values that lack its own last update. This pays where servers have CPUs of
    /// their own. It needs asynchronous training without a coordinator; with tables, also call
    /// [`Session::announce`](crate::Session::announce). It changes nothing in a job of one process.
    #[must_use]
    pub fn overlap(mut self, overlap: bool) -> Self {
        self.overlap = overlap;
        self
    }

    /// Sets what happens when a gradient or a loss is not finite.
    #[must_use]
    pub fn non_finite(mut self, policy: NonFinite) -> Self {
        self.non_finite = policy;
        self
    }

    /// Sets how long a worker waits for the chief to initialise the model (default: two hours, as in TensorFlow).
    #[must_use]
    pub fn ready_deadline(mut self, deadline: Duration) -> Self {
        self.ready_deadline = deadline;
        self
    }

    /// Sets the run directory, where the chief saves and restores checkpoints and writes summaries: a path, or an object store
    /// where that was built in. Without one nothing is saved, and a lost parameter server ends the job.
    ///
    /// # Errors
    /// When the location is malformed, or this build cannot reach it.
    pub fn logdir(mut self, location: &str) -> Result<Self> {
        self.checkpoints.dir = Some(run_dir::open_run_dir(location)?);
        Ok(self)
    }

    /// Sets the run directory to one that is open.
    #[must_use]
    pub fn run_dir(mut self, dir: Dir) -> Self {
        self.checkpoints.dir = Some(dir);
        self
    }

    /// Restores the newest checkpoint of a directory that another task saves into: a mirrored worker begins with the values
    /// and slots of the chief. Nothing is written there.
    #[must_use]
    pub fn restore_from(mut self, dir: Dir) -> Self {
        (self.checkpoints.dir, self.checkpoints.restores_only) = (Some(dir), true);
        self
    }

    /// Sets the name of checkpoints; `model.ckpt` gives `model.ckpt-300`.
    #[must_use]
    pub fn checkpoint_basename(mut self, name: &str) -> Self {
        name.clone_into(&mut self.checkpoints.basename);
        self
    }

    /// Sets how often the chief saves; `None` leaves the saves at the start and at the end. By default, it saves after 5
    /// seconds, then less and less often, and every 600 seconds in the long run.
    #[must_use]
    pub fn save_model_secs(mut self, seconds: impl Into<Option<u64>>) -> Self {
        self.checkpoints.save.time = seconds.into().map(|seconds| SavePeriod::Every(Duration::from_secs(seconds)));
        self
    }

    /// Saves every `steps` steps, instead of or in addition to every n seconds.
    #[must_use]
    pub fn save_model_steps(mut self, steps: u64) -> Self {
        self.checkpoints.save.steps = Some(steps);
        self
    }

    /// Sets how many of the newest checkpoints are kept; 0 keeps all.
    #[must_use]
    pub fn max_to_keep(mut self, count: usize) -> Self {
        self.checkpoints.retention.max_to_keep = count;
        self
    }

    /// Keeps one checkpoint in every n hours for good.
    #[must_use]
    pub fn keep_checkpoint_every_n_hours(mut self, hours: f64) -> Self {
        self.checkpoints.retention.keep_every_n_hours = hours;
        self
    }

    /// Sets how often the chief writes loss, learning rate, norm of the gradients, staleness and rate; `None` turns it off. By
    /// default, it writes them at the first step, every second at first, and every 120 seconds in the long run.
    #[must_use]
    pub fn save_summaries_secs(mut self, seconds: impl Into<Option<u64>>) -> Self {
        let every = |seconds| SummaryInterval::Every(Duration::from_secs(seconds));
        self.checkpoints.summaries = seconds.into().map(every);
        self
    }

    /// Writes summaries every `steps` global steps instead; `None` turns them off.
    #[must_use]
    pub fn save_summaries_steps(mut self, steps: impl Into<Option<u64>>) -> Self {
        self.checkpoints.summaries = steps.into().map(SummaryInterval::Steps);
        self
    }

    /// Sets whether the summaries have a histogram of every variable, under its name.
    #[must_use]
    pub fn save_histograms(mut self, histograms: bool) -> Self {
        self.checkpoints.histograms = histograms;
        self
    }

    /// Returns the task.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Returns the same settings for another task of this process.
    pub(crate) fn for_task(&self, server: &Server) -> Self {
        Self { server: server.clone(), ..self.clone() }
    }

    /// Returns whether exchanges overlap with computation.
    pub(crate) fn overlaps(&self) -> bool {
        self.overlap
    }

    /// Returns the run directory, where there is one.
    pub(crate) fn kept_in(&self) -> Option<&Dir> {
        self.checkpoints.dir.as_ref()
    }

    /// Returns whether this task should stop: the job is ending, or this process was asked to stop.
    #[must_use]
    pub fn should_stop(&self) -> bool {
        self.server.should_stop()
    }
}
