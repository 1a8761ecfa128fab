//! A training in a few calls: a model, its tables, a loss, a metric.

mod calls;
mod evaluate;
mod input;
mod lookups;
mod outputs;
mod table;
mod train;

pub use lookups::BatchRows;
pub use outputs::IntoPredictions;
pub use table::Table;

use crate::heartbeat::Heartbeat;
use crate::{BoundedStaleness, Server, Session, Supervisor, SyncReplicas, run_dir};
use lookups::Lookups;
use phalanx_base::{Code, Error, Result};
use phalanx_cluster::schedule::Consistency;
use phalanx_nn::burn::module::Module;
use phalanx_optim::Optimizer;

/// The training of one model by all trainers of a job; [`Server::trainer`] creates it.
///
/// The builder methods come first; the first call of [`Trainer::train`], [`Trainer::evaluate`] or [`Trainer::session`] connects to
/// the model on the parameter servers. Every trainer of the job makes the same calls in the same order, and they return together.
///
/// ```
/// use phalanx_base::Result;
/// use phalanx_data::{Batch, Column, Dataset};
/// use phalanx_nn::burn::nn::LinearConfig;
/// use phalanx_optim::{Adam, Sgd};
/// use phalanx_train::{BatchTensors, Server, Table};
/// let device = phalanx_nn::default_device();
/// let batch = Batch::new([("user", Column::i64(vec![7, 9, 7])), ("liked", Column::f32(vec![1.0, 0.0, 1.0]))])?;
/// let data = Dataset::from_tensor_slices(batch).repeat().batch(3);
/// let trained = Server::local()?.run(|task| {
///     let mut trainer =
///         task.trainer(LinearConfig::new(4, 1).init(&device), Sgd::new(0.1)).table("user", Table::new(4).optimizer(Adam::new(0.1)));
///     trainer.train(data, 50, |model, rows, batch| {
///         let error = model.forward(rows.get("user")?) - batch.tensor("liked", &device)?;
///         Result::Ok(error.powf_scalar(2.0).mean())
///     })
/// })?;
/// assert!(trained.unwrap().loss.unwrap() < 0.1);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
pub struct Trainer<M: Module> {
    supervisor: Supervisor,
    optimizer: Optimizer,
    /// Until the session has it.
    model: Option<M>,
    session: Option<Session<M>>,
    lookups: Lookups,
    /// A mistake of the builder, which the first call returns.
    mistake: Option<Error>,
    /// How many calls were made.
    calls: u64,
    /// Where a former incarnation of this task was in its input.
    position: Option<Vec<u8>>,
    heartbeat: Heartbeat,
}

/// The result of a training.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Trained {
    /// The committed steps of all trainers, including earlier runs; the same in every task.
    pub global_step: u64,
    /// The steps of this task.
    pub steps: u64,
    /// The loss of this task's last step.
    pub loss: Option<f32>,
    /// The duration of this task's steps in seconds.
    pub seconds: f64,
}

impl Server {
    /// Returns a trainer of `model`, whose variables `optimizer` changes. The run directory that `TF_CONFIG` names, or that a
    /// launcher offers, is used unless [`Trainer::model_dir`] chooses one.
    #[must_use]
    pub fn trainer<M: Module>(&self, model: M, optimizer: impl Into<Optimizer>) -> Trainer<M> {
        let optimizer = optimizer.into();
        let mut supervisor = Supervisor::new(self, optimizer).moving_averages(true);
        let mut mistake = None;
        let dir = self.config().model_dir().or(self.config().output_dir());
        match dir.map(run_dir::open_run_dir) {
            Some(Ok(dir)) => supervisor = supervisor.run_dir(dir),
            Some(Err(error)) => mistake = Some(error),
            None => {}
        }
        Trainer {
            supervisor,
            optimizer,
            model: Some(model),
            session: None,
            lookups: Lookups::default(),
            mistake,
            calls: 0,
            position: None,
            heartbeat: Heartbeat::default(),
        }
    }
}

impl<M: Module> Trainer<M> {
    /// Adds a table on the parameter servers. Steps find the rows of a batch's ids under this name, which is also that of the
    /// column unless [`Table::columns`] names others.
    #[must_use]
    pub fn table(mut self, name: &str, table: Table) -> Self {
        let (spec, columns) = table.resolve(name, self.optimizer);
        let added = self.supervisor.table(spec).and_then(|id| self.lookups.add(name, id, columns));
        self.mistake = self.mistake.or(added.err());
        self
    }

    /// Sets the run directory, where the chief saves and restores checkpoints and writes summaries: a path, or an object store
    /// that is built in. Without one nothing is saved, and a lost parameter server ends the job.
    ///
    /// # Errors
    /// When the location is malformed, or `TF_CONFIG` names another one.
    pub fn model_dir(mut self, location: &str) -> Result<Self> {
        if let Some(given) = self.server().config().model_dir().filter(|given| *given != location) {
            return Err(Error::new(Code::ConfigModelDir, "there are two run directories")
                .because(format!("TF_CONFIG has {given:?}, the program {location:?}"))
                .help("set it once, or the same in both"));
        }
        self.supervisor = self.supervisor.logdir(location)?;
        Ok(self)
    }

    /// Sets how trainers wait for each other: `async` (not at all, the default), `ssp:K` (none is more than K steps ahead of the
    /// slowest), `sync` or `sync:BACKUPS` (an update is the mean of one step of each trainer, less BACKUPS that are not waited
    /// for).
    ///
    /// # Errors
    /// When it is none of those.
    pub fn consistency(mut self, text: &str) -> Result<Self> {
        let trainers = self.server().config().trainers().len() as u64;
        self.supervisor = match Consistency::parse(text, trainers)? {
            Consistency::Async => self.supervisor,
            Consistency::Bounded(steps) => self.supervisor.bounded(BoundedStaleness { steps }),
            Consistency::Rounds { size, backups } => {
                self.supervisor.sync(SyncReplicas { replicas_to_aggregate: Some((size - backups) as u32) })
            }
        };
        Ok(self)
    }

    /// Changes other settings of the supervisor: how often it saves, how variables are placed, whether exchanges overlap.
    ///
    /// ```
    /// # use phalanx_nn::burn::nn::LinearConfig;
    /// # use phalanx_optim::Sgd;
    /// # use phalanx_train::Server;
    /// # let (task, model) = (Server::local()?, LinearConfig::new(1, 1).init(&phalanx_nn::default_device()));
    /// let trainer = task.trainer(model, Sgd::new(0.1)).configure(|supervisor| supervisor.save_model_steps(500).overlap(true));
    /// # drop(trainer);
    /// # task.leave(None);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    #[must_use]
    pub fn configure(mut self, change: impl FnOnce(Supervisor) -> Supervisor) -> Self {
        self.supervisor = change(self.supervisor);
        self
    }

    /// As [`Self::configure`], for settings that may be wrong.
    ///
    /// # Errors
    /// What `change` returns.
    pub fn try_configure(mut self, change: impl FnOnce(Supervisor) -> Result<Supervisor>) -> Result<Self> {
        self.supervisor = change(self.supervisor)?;
        Ok(self)
    }

    /// Returns this trainer's connection to the model: its newest values, its summaries, its global step.
    ///
    /// # Errors
    /// When the job does not form, or the model is not what the servers hold.
    pub fn session(&mut self) -> Result<&mut Session<M>> {
        self.prepare()?;
        self.session.as_mut().ok_or_else(calls::gone)
    }

    fn server(&self) -> &Server {
        self.supervisor.server()
    }

    /// Connects to the model on the servers, once.
    fn prepare(&mut self) -> Result<()> {
        if let Some(mistake) = &self.mistake {
            return Err(mistake.clone());
        }
        let Some(model) = self.model.take() else { return Ok(()) };
        let session = self.supervisor.prepare_or_wait_for_session(model)?;
        self.position = session.restore_position().map(<[u8]>::to_vec);
        self.session = Some(session);
        match self.supervisor.kept_in().filter(|_| self.server().is_chief()) {
            Some(dir) => self.heartbeat.start(dir),
            None => Ok(()),
        }
    }

    /// Takes part in rounds again, as of the newest one, and fetches the newest values.
    fn rejoin(&self, session: &mut Session<M>) -> Result<()> {
        self.supervisor.let_drive(session)?;
        session.refresh()
    }
}

fn malformed() -> Error {
    Error::new(Code::BadMessage, "the outcome of a call is malformed")
}
