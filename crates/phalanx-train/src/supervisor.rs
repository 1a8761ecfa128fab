//! Who initialises, who waits, and when to stop: TensorFlow's Supervisor.

use crate::services::{Services, Timer};
use crate::session::Parts;
use crate::{NonFinite, Saver, Server, Session, SummaryWriter, SyncReplicas};
use bytes::Bytes;
use phalanx_base::{Code, Error, Result, write_f32s};
use phalanx_nn::Book;
use phalanx_nn::burn::module::Module;
use phalanx_optim::Optimizer;
use phalanx_ps::client::Remote;
use phalanx_ps::{Client, Layout, Partitioner, Placement, TableSpec, VariableSpec};
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
    placement: Placement,
    partitioner: Partitioner,
    tables: Vec<TableSpec>,
    sync: Option<SyncReplicas>,
    non_finite: NonFinite,
    ready_deadline: Duration,
    services: std::cell::RefCell<Services>,
    save_model_secs: u64,
    save_summaries_secs: u64,
}

impl Supervisor {
    /// A supervisor for this task; gradients change variables by `optimizer`.
    #[must_use]
    pub fn new(server: &Server, optimizer: impl Into<Optimizer>) -> Self {
        Self {
            server: server.clone(),
            optimizer: optimizer.into(),
            placement: Placement::default(),
            partitioner: Partitioner::default(),
            tables: Vec::new(),
            sync: None,
            non_finite: NonFinite::default(),
            ready_deadline: Duration::from_secs(7200),
            services: std::cell::RefCell::default(),
            save_model_secs: 600,
            save_summaries_secs: 120,
        }
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

    /// Where the chief restores from and saves to.
    #[must_use]
    pub fn saver(self, saver: impl Saver + 'static) -> Self {
        self.services.borrow_mut().saver = Some((Timer::new(Duration::ZERO), Box::new(saver)));
        self
    }

    /// How often the chief saves, where there is a saver.
    #[must_use]
    pub fn save_model_secs(mut self, seconds: u64) -> Self {
        self.save_model_secs = seconds;
        self
    }

    /// Where the chief writes summaries.
    #[must_use]
    pub fn summary_writer(self, writer: impl SummaryWriter + 'static) -> Self {
        self.services.borrow_mut().summaries = Some((Timer::new(Duration::ZERO), Box::new(writer)));
        self
    }

    /// How often the chief writes summaries, where there is a writer.
    #[must_use]
    pub fn save_summaries_secs(mut self, seconds: u64) -> Self {
        self.save_summaries_secs = seconds;
        self
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

    /// The same over connections of one's own, such as a test's that lose messages; `client` speaks for this task.
    ///
    /// # Errors
    /// As [`Self::prepare_or_wait_for_session`].
    pub fn prepare_with_client<M: Module>(&self, module: M, client: Client) -> Result<Session<M>> {
        self.server.wait_until_formed()?;
        let book = Book::of(&module)?;
        let layout = self.layout(&book, client.servers())?;
        let mut services = Services::default();
        let remote = if self.server.is_chief() {
            services = self.services.take();
            let pace = |seconds| Timer::new(Duration::from_secs(seconds));
            services.saver.iter_mut().for_each(|(timer, _)| *timer = pace(self.save_model_secs));
            services.summaries.iter_mut().for_each(|(timer, _)| *timer = pace(self.save_summaries_secs));
            self.initialize(&client, layout, &book, &module, &mut services)?
        } else {
            self.wait_for_model(&client)?;
            Remote::find(&client, layout)?
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
            optimizer: self.optimizer,
            partitioner: self.partitioner,
        };
        let variables = book.parameters().iter().map(variable).collect();
        Layout::new(variables, self.tables.clone(), servers, self.placement)
    }

    fn initialize<M: Module>(
        &self,
        client: &Client,
        layout: Layout,
        book: &Book,
        module: &M,
        services: &mut Services,
    ) -> Result<Remote> {
        if client.describe(0)?.ready {
            // Whoever trained while there was no chief and is gone, this task's former life among them.
            self.server.take_over(client.lives()?);
            self.server.say(&format!("the servers hold the model at step {}; going on with it", client.global_step()?));
            return Remote::find(client, layout);
        }
        let restored = services.saver.as_mut().map_or(Ok(None), |(_, saver)| saver.restore())?;
        let mut values = book.values(module)?;
        if let Some(checkpoint) = &restored {
            for (parameter, value) in book.parameters().iter().zip(&mut values) {
                let found = checkpoint.variables.iter().find(|(name, ..)| *name == parameter.name);
                let (_, shape, numbers) = found.ok_or_else(|| missing(&parameter.name, checkpoint.global_step))?;
                if *shape != parameter.shape {
                    return Err(Error::new(
                        Code::ShapeMismatch,
                        format!("the checkpoint's {:?} does not fit", parameter.name),
                    )
                    .because(format!("it has shape {shape}, the model wants {}", parameter.shape)));
                }
                let mut bytes = Vec::with_capacity(4 * numbers.len());
                write_f32s(numbers, &mut bytes);
                *value = Bytes::from(bytes);
            }
            self.server.say(&format!("restored the model at step {}", checkpoint.global_step));
        }
        let remote = Remote::create(client, layout, &values)?;
        if let Some(checkpoint) = restored {
            client.set_global_step(checkpoint.global_step)?;
        }
        client.set_ready()?;
        Ok(remote)
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

    /// Ends this task's training: sends what is pending and leaves; the chief ends the job with it.
    ///
    /// # Errors
    /// When the last updates cannot be sent, the job failed, or somebody asked this process to stop.
    pub fn stop<M: Module>(&self, mut session: Session<M>) -> Result<()> {
        let finished = match session.finish() {
            // Too late to matter: the servers may already have gone.
            Err(_) if self.server.job().phase() == phalanx_cluster::Phase::Over => Ok(()),
            finished => finished,
        };
        let failure = self.server.job().failure().map_or(Ok(()), Err);
        let interrupted = self.server.job().interrupted().map_or(Ok(()), Err);
        // Ctrl-C in a terminal reaches every task: servers that went with it are no failure of this one.
        let outcome = interrupted.and(failure).and(finished);
        self.server.leave(outcome.as_ref().err());
        outcome
    }
}

fn missing(name: &str, step: u64) -> Error {
    Error::new(Code::NoSuchVariable, format!("the checkpoint of step {step} has no variable {name:?}"))
        .help("it is of another model; start in another directory, or change the model back")
}
