//! Who initialises, who waits, and when to stop: TensorFlow's Supervisor.

use crate::checkpoint::{Catalog, Keeper, Saver, restore_job, restore_one};
use crate::run_dir::{self, RunDir};
use crate::services::Services;
use crate::session::Parts;
use crate::summary::SummaryWriter;
use crate::{NonFinite, Server, Session, SyncReplicas};
use phalanx_base::{Code, Error, Result};
use phalanx_nn::Book;
use phalanx_nn::burn::module::Module;
use phalanx_optim::Optimizer;
use phalanx_ps::client::Remote;
use phalanx_ps::{Client, Layout, Partitioner, Placement, TableSpec, VariableSpec};
use phalanx_storage::Dir;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

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
            non_finite: NonFinite::default(),
            ready_deadline: Duration::from_secs(7200),
            run_dir: RunDir::default(),
        }
    }

    /// Changes variables by this optimizer instead.
    #[must_use]
    pub(crate) fn optimizer(mut self, optimizer: Optimizer) -> Self {
        self.optimizer = optimizer;
        self
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

    /// Waits for the job to form; then the chief restores the model or starts it from `module`'s values, and the others
    /// wait for that. A chief that was started again finds the model on the servers and goes on with it.
    ///
    /// # Errors
    /// When the job does not form, the model is not what the servers hold, or a deadline passes.
    pub fn prepare_or_wait_for_session<M: Module>(&self, module: M) -> Result<Session<M>> {
        self.server.wait_until_formed()?;
        let session = self.server.client().and_then(|client| self.prepare_with_client(module, client));
        self.server.note(session)
    }

    /// The same for a job with a coordinator, which collects gradients into `rounds` or does not.
    pub(crate) fn prepare_coordinated<M: Module>(&self, module: M, rounds: bool) -> Result<Session<M>> {
        self.server.wait_until_formed()?;
        let session = self.server.client().and_then(|client| self.prepare(module, client, rounds));
        self.server.note(session)
    }

    /// The same over connections of one's own, such as a test's that lose messages; `client` speaks for this task.
    ///
    /// # Errors
    /// As [`Self::prepare_or_wait_for_session`].
    pub fn prepare_with_client<M: Module>(&self, module: M, client: Client) -> Result<Session<M>> {
        self.server.wait_until_formed()?;
        self.prepare(module, client, self.sync.is_some())
    }

    fn prepare<M: Module>(&self, module: M, client: Client, rounds: bool) -> Result<Session<M>> {
        let book = Book::of(&module)?;
        let layout = self.layout(&book, client.servers())?;
        let (remote, services) = if self.server.is_chief() {
            let mut saver = self.run_dir.saver(rounds)?;
            if let Some(remark) = saver.as_ref().and_then(|saver| saver.catalog().remark()) {
                self.server.say(remark);
            }
            let remote = self.initialize(&client, layout, &book, &module, saver.as_mut())?;
            let services = saver.map_or_else(|| Ok(Services::none()), |saver| self.services(&client, &remote, saver));
            (remote, services?)
        } else {
            self.wait_for_model(&client)?;
            (Remote::find(&client, layout)?, Services::none())
        };
        let trainers = self.server.config().trainers().len() as u32;
        let sync = self.sync.map(|sync| sync.replicas_to_aggregate.unwrap_or(trainers));
        let (server, non_finite) = (self.server.clone(), self.non_finite);
        Session::new(Parts { server, client, remote, book, module, non_finite, sync, services })
    }

    fn layout(&self, book: &Book, servers: usize) -> Result<Layout> {
        let variable = |parameter: &phalanx_nn::Parameter| VariableSpec {
            name: parameter.name.clone(),
            shape: parameter.shape.clone(),
            optimizer: self.optimizers.get(&parameter.name).copied().unwrap_or(self.optimizer),
            partitioner: self.partitioner,
        };
        let variables = book.parameters().iter().map(variable).collect();
        Layout::new(variables, self.tables.clone(), servers, self.placement)
    }

    /// Makes the model on the servers that have none: from the newest checkpoint, or else from `module`'s values.
    fn initialize<M: Module>(
        &self,
        client: &Client,
        layout: Layout,
        book: &Book,
        module: &M,
        saver: Option<&mut Saver>,
    ) -> Result<Remote> {
        let mut empty = Vec::new();
        for server in 0..client.servers() {
            if !client.describe(server)?.ready {
                empty.push(server);
            }
        }
        if empty.len() < client.servers() {
            // Whoever trained while there was no chief and is gone, this task's former life among them.
            self.server.take_over(client.lives()?);
        }
        if empty.is_empty() {
            self.server.say(&format!("the servers hold the model at step {}; going on with it", client.global_step()?));
            return Remote::find(client, layout);
        }
        let remote = Remote::announce(client, layout)?;
        let catalog = saver.as_ref().map(|saver| saver.catalog());
        let restored = catalog.map_or(Ok(None), |catalog| self.restore(client, &remote, catalog, &empty))?;
        let remote = match restored {
            Some((name, step)) if empty.len() == client.servers() => {
                self.server.say(&format!("restored {name}: going on at step {step}"));
                remote
            }
            Some((name, saved)) => {
                let lost = client.global_step()?.saturating_sub(saved);
                let which: Vec<String> = empty.iter().map(|server| format!("ps/{server}")).collect();
                let (which, lost) = (which.join(", "), format!("at most {lost} steps"));
                self.server.say(&format!(
                    "{which} had lost its part and has that of {name}; what came after step {saved} is lost there, {lost}"
                ));
                remote
            }
            None => {
                let remote = Remote::create(client, remote.layout().clone(), &book.values(module)?)?;
                if let Some(saved) = saver.map_or(Ok(None), |saver| saver.save_first(client))? {
                    self.server.say(&saved.to_string());
                }
                remote
            }
        };
        // The server that counts steps last, because others ask that one.
        empty.iter().rev().try_for_each(|&server| client.set_server_ready(server))?;
        Ok(remote)
    }

    fn restore(
        &self,
        client: &Client,
        remote: &Remote,
        catalog: &Catalog,
        empty: &[usize],
    ) -> Result<Option<(String, u64)>> {
        let say = |line: &str| self.server.say(line);
        if empty.len() == client.servers() {
            return restore_job(client, remote, catalog, &say);
        }
        // The others hold a model that has been trained on.
        let mut restored = None;
        for &server in empty {
            restored = restore_one(client, remote, server, catalog, &say)?;
            if let (0, Some((_, step))) = (server, &restored) {
                client.set_global_step(*step)?;
            }
        }
        Ok(restored)
    }

    /// What the chief does beside training.
    fn services(&self, client: &Client, remote: &Remote, saver: Saver) -> Result<Services> {
        let summaries = SummaryWriter::open_with(saver.catalog().dir(), Arc::clone(&self.server.options().say))?;
        let summaries = Arc::new(summaries);
        let step = client.global_step()?;
        summaries.started(step);
        let first = saver.catalog().name(step);
        if saver.catalog().newest_first().first() == Some(&first) {
            summaries.saved(step, &first);
        }
        let own = Remote::find(client, remote.layout().clone())?;
        let keeper = Keeper::start(&self.server, own, saver, self.run_dir.save_pace(), Arc::clone(&summaries))?;
        self.server.wait_for_servers();
        Ok(Services::new(keeper, summaries, self.run_dir.summary_pace()))
    }

    fn wait_for_model(&self, client: &Client) -> Result<()> {
        let started = Instant::now();
        let mut told = false;
        while !client.describe(0)?.ready {
            if !told && started.elapsed() > Duration::from_secs(2) {
                self.server.say("waiting for the chief to initialise the model");
                told = true;
            }
            if self.should_stop() {
                self.server.job().wait_for(phalanx_cluster::Phase::Ending)?;
                return Err(Error::new(Code::JobFailed, "the job ended before the model was initialised"));
            }
            if started.elapsed() > self.ready_deadline {
                return Err(Error::new(
                    Code::NotInitialized,
                    "the chief has not initialised the model before the deadline",
                )
                .because(format!("{} s passed", self.ready_deadline.as_secs()))
                .help("see the chief's log"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// As [`Self::stop`], for trainers that each have a share of the input: a chief whose share is used up waits until the
    /// others are done with theirs, or lost, before it ends the job.
    ///
    /// # Errors
    /// As [`Self::stop`].
    pub fn stop_with_workers<M: Module>(&self, mut session: Session<M>) -> Result<()> {
        let mut finished = self.server.note(session.finish());
        while finished.is_ok() && self.server.has_trainers() && !self.should_stop() {
            std::thread::sleep(Duration::from_millis(20));
            finished = self.server.note(session.finish_orphans());
        }
        self.stop(session)
    }

    /// Ends this task's training: sends what is pending and leaves; the chief saves once more and ends the job with it.
    ///
    /// # Errors
    /// When the last updates cannot be sent, the last checkpoint cannot be saved, the job failed, or somebody asked this
    /// process to stop.
    pub fn stop<M: Module>(&self, mut session: Session<M>) -> Result<()> {
        let finished = match session.finish() {
            // Too late to matter: the servers may already have gone.
            Err(_) if self.server.job().phase() == phalanx_cluster::Phase::Over => Ok(()),
            finished => finished,
        };
        let saved = match self.server.job().failure() {
            None => session.save_last().map_err(|error| self.unsaved(&session, &error)),
            Some(_) => Ok(()),
        };
        let failure = self.server.job().failure().map_or(Ok(()), Err);
        let interrupted = self.server.job().interrupted().map_or(Ok(()), Err);
        if let (Err(_), Err(unsaved)) = (&interrupted, &saved) {
            // The interruption is what is returned.
            self.server.say(&unsaved.to_string());
        }
        // Ctrl-C in a terminal reaches every task: servers that went with it are no failure of this one.
        let outcome = interrupted.and(failure).and(finished).and(saved);
        self.server.leave(outcome.as_ref().err());
        outcome
    }

    /// What was trained since the newest checkpoint goes with the servers: a job that ends like that has not done its work.
    fn unsaved<M: Module>(&self, session: &Session<M>, error: &Error) -> Error {
        let place = self.run_dir.dir.as_ref().map_or_else(String::new, |dir| format!("{}, ", dir.location()));
        let newest = session.newest_checkpoint().map_or_else(
            || "the newest checkpoint".to_owned(),
            |saved| format!("{}, the newest checkpoint", saved.name),
        );
        Error::new(error.code(), "the last checkpoint was not saved")
            .at(format!("{place}step {}", session.global_step()))
            .because(error)
            .help(format!(
                "make the run directory writable, with room in it, and start the job again: it goes on from {newest}"
            ))
    }
}
