//! Who initialises, who waits, and when to stop: TensorFlow's Supervisor.

mod prepare;
mod stop;

use crate::run_dir::{self, RunDir};
use crate::{NonFinite, Server, SyncReplicas};
use phalanx_base::Result;
use phalanx_optim::Optimizer;
use phalanx_ps::{Partitioner, Placement, TableSpec};
use phalanx_storage::Dir;
use std::collections::HashMap;
use std::time::Duration;

/// Looks after one task's training.
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
pub struct Supervisor {
    server: Server,
    optimizer: Optimizer,
    optimizers: HashMap<String, Optimizer>,
    placement: Placement,
    partitioner: Partitioner,
    tables: Vec<TableSpec>,
    sync: Option<SyncReplicas>,
    overlap: bool,
    non_finite: NonFinite,
    ready_deadline: Duration,
    run_dir: RunDir,
}

impl Supervisor {
    /// A supervisor for this task; gradients change variables by `optimizer`.
    #[must_use]
    pub fn new(server: &Server, optimizer: impl Into<Optimizer>) -> Self {
        Self {
            server: server.clone(),
            optimizer: optimizer.into(),
            optimizers: HashMap::new(),
            placement: Placement::default(),
            partitioner: Partitioner::default(),
            tables: Vec::new(),
            sync: None,
            overlap: false,
            non_finite: NonFinite::default(),
            ready_deadline: Duration::from_secs(7200),
            run_dir: RunDir::default(),
        }
    }

    /// The optimizer of all variables that have none of their own.
    pub(crate) fn optimizer(&self) -> Optimizer {
        self.optimizer
    }

    /// Changes the variable of this name by an optimizer of its own.
    #[must_use]
    pub fn optimizer_of(mut self, variable: &str, optimizer: impl Into<Optimizer>) -> Self {
        self.optimizers.insert(variable.to_owned(), optimizer.into());
        self
    }

    /// Spreads variables over servers in this way.
    #[must_use]
    pub fn placement(mut self, placement: Placement) -> Self {
        self.placement = placement;
        self
    }

    /// Splits every variable in this way.
    #[must_use]
    pub fn partitioner(mut self, partitioner: Partitioner) -> Self {
        self.partitioner = partitioner;
        self
    }

    /// Adds a table of rows; its number is the count of tables added before.
    #[must_use]
    pub fn table(mut self, table: TableSpec) -> Self {
        self.tables.push(table);
        self
    }

    /// Trains synchronously.
    #[must_use]
    pub fn sync(mut self, sync: SyncReplicas) -> Self {
        self.sync = Some(sync);
        self
    }

    /// Whether every step's exchange with the servers goes on while the step before it is computed: a trainer never waits
    /// for its servers then, and computes on values that lack its own last update. Worth it where servers have processors
    /// of their own. For workers that drive themselves and train asynchronously; tables also want
    /// [`Session::announce`](crate::Session::announce). In a job of one process there is nothing to wait for, and it
    /// changes nothing.
    #[must_use]
    pub fn overlap(mut self, overlap: bool) -> Self {
        self.overlap = overlap;
        self
    }

    /// What to do when something is not finite.
    #[must_use]
    pub fn non_finite(mut self, policy: NonFinite) -> Self {
        self.non_finite = policy;
        self
    }

    /// How long a worker waits for the chief to initialise the model (TensorFlow's default: two hours).
    #[must_use]
    pub fn ready_deadline(mut self, deadline: Duration) -> Self {
        self.ready_deadline = deadline;
        self
    }

    /// The run directory: there the chief restores from, saves to and writes summaries. A path, or an object store where
    /// that was built in. Without one, nothing is kept, and a lost parameter server ends the job.
    ///
    /// # Errors
    /// When the location is malformed, or this build cannot reach it.
    pub fn logdir(mut self, location: &str) -> Result<Self> {
        self.run_dir.dir = Some(run_dir::open(location)?);
        Ok(self)
    }

    /// The same for a directory that is open already.
    #[must_use]
    pub fn run_dir(mut self, dir: Dir) -> Self {
        self.run_dir.dir = Some(dir);
        self
    }

    /// What checkpoints are called; `model.ckpt` gives `model.ckpt-300`.
    #[must_use]
    pub fn checkpoint_basename(mut self, name: &str) -> Self {
        name.clone_into(&mut self.run_dir.basename);
        self
    }

    /// How often the chief saves; `None` turns it off. It saves once at the start, and once at the end.
    #[must_use]
    pub fn save_model_secs(mut self, seconds: impl Into<Option<u64>>) -> Self {
        self.run_dir.save_secs = seconds.into();
        self
    }

    /// Saves every so many steps, instead of or beside every so many seconds.
    #[must_use]
    pub fn save_model_steps(mut self, steps: u64) -> Self {
        self.run_dir.save_steps = Some(steps);
        self
    }

    /// How many of the newest checkpoints stay; 0 keeps all.
    #[must_use]
    pub fn max_to_keep(mut self, count: usize) -> Self {
        self.run_dir.retention.max_to_keep = count;
        self
    }

    /// One checkpoint in so many hours stays for good.
    #[must_use]
    pub fn keep_checkpoint_every_n_hours(mut self, hours: f64) -> Self {
        self.run_dir.retention.keep_every_n_hours = hours;
        self
    }

    /// How often the chief writes loss and rate; `None` turns it off.
    #[must_use]
    pub fn save_summaries_secs(mut self, seconds: impl Into<Option<u64>>) -> Self {
        self.run_dir.summary_secs = seconds.into();
        self
    }

    /// The task that it looks after.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The run directory, where there is one.
    pub(crate) fn kept_in(&self) -> Option<&Dir> {
        self.run_dir.dir.as_ref()
    }

    /// Whether this task should stop: the job is over, or somebody asked.
    #[must_use]
    pub fn should_stop(&self) -> bool {
        self.server.should_stop()
    }
}
