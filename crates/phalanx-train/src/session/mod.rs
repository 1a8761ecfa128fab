//! The worker's loop: pull values, compute, push gradients.
//!
//! Every step sends the gradients of the step before in the message that asks for the newest values, so a step costs
//! one round trip. Between two steps one gradient is therefore pending; [`Session::finish`] sends the last one. Where
//! steps overlap, even that round trip proceeds during the computation.

mod bounded;
mod clip;
mod directive;
mod loss;
mod overlap;
mod pending;
mod rounds;
mod step;
mod unfinished_updates;
mod values;

use crate::services::Services;
use crate::{Server, TableId};
use bytes::Bytes;
use clip::GradientClipper;
pub use loss::IntoLoss;
use overlap::Overlap;
use pending::Pending;
use phalanx_base::{Code, Error, Result};
use phalanx_nn::burn::module::Module;
use phalanx_nn::burn::tensor::{Device, Gradients, Tensor};
use phalanx_nn::{HostBuffer, ParameterRegistry, Rows};
use phalanx_ps::Client;
use phalanx_ps::client::{BackgroundExchange, Push, RemoteModel, UpdateMode};
pub(crate) use rounds::Rounds;
use std::sync::Arc;
use unfinished_updates::UnfinishedUpdates;

pub use bounded::BoundedStaleness;
pub(crate) use bounded::Lead;

pub(crate) use directive::StepDirective;
pub use rounds::SyncReplicas;
pub use step::StepGradients;
pub(crate) use values::to_wire;

/// The policy for a gradient or a loss that is not finite.
///
/// ```
/// use phalanx_optim::Sgd;
/// use phalanx_train::{NonFinite, Server, Supervisor};
/// let supervisor = Supervisor::new(&Server::local()?, Sgd::new(0.1)).non_finite(NonFinite::Skip);
/// # let _ = supervisor;
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NonFinite {
    /// End the job with an error that names the variable, the step and the worker.
    #[default]
    Stop,
    /// Drop the step's gradients, log it, and continue.
    Skip,
}

/// The result of one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The loss on this step's batch.
    pub loss: f32,
    /// The steps that all trainers have committed so far.
    pub global_step: u64,
}

/// The rows of one table that a batch needs.
#[derive(Clone, Debug)]
pub struct RowValues {
    /// The unique rows, concatenated.
    pub values: Vec<f32>,
    /// How many numbers a row has.
    pub dim: usize,
    /// For each id of the batch, the index of its unique row.
    pub positions: Vec<u32>,
}

/// What a trainer waits for between two steps.
pub(crate) enum Pace {
    /// Nothing: asynchronous training, or a coordinator decides.
    Free,
    /// The end of a round.
    Rounds(Rounds),
    /// Trainers that are far behind.
    Bounded(Lead),
}

/// A worker's connection to the model on the servers.
///
/// ```
/// use phalanx_nn::burn::{nn::LinearConfig, tensor::Tensor};
/// use phalanx_optim::Sgd;
/// use phalanx_train::{Server, Supervisor};
/// let device = phalanx_nn::default_device();
/// let server = Server::local()?;
/// let supervisor = Supervisor::new(&server, Sgd::new(0.1));
/// let mut session = supervisor.prepare_or_wait_for_session(LinearConfig::new(2, 1).init(&device))?;
/// let step = session.step(|model| model.forward(Tensor::<2>::ones([4, 2], &device)).powf_scalar(2.0).mean())?;
/// assert_eq!(step.unwrap().global_step, 0); // its gradients go with the next message
/// session.finish()?;
/// assert_eq!(session.global_step(), 1);
/// supervisor.stop(session)?;
/// # Ok::<(), phalanx_base::Error>(())
/// ```
pub struct Session<M> {
    server: Server,
    client: Arc<Client>,
    remote: RemoteModel,
    registry: ParameterRegistry,
    /// `None` only while values are being put into it.
    module: Option<M>,
    device: Device,
    non_finite: NonFinite,
    /// Whether the servers keep the moving averages of the model, as variables that follow its own.
    moving_averages: bool,
    /// What this trainer waits for between two steps.
    pace: Pace,
    /// The global step at which training ends.
    last_step: Option<u64>,
    /// Set where exchanges overlap with computation.
    overlap: Option<Overlap>,
    services: Services,
    unfinished: UnfinishedUpdates,
    /// A coordinator handles lost trainers, not this session.
    coordinated: bool,
    directive: StepDirective,
    /// The learning rate of dense gradients, where it differs from that of the supervisor's optimizer.
    learning_rate: Option<f32>,
    clipper: GradientClipper,
    pending: Pending,
    /// The position in the input that goes with the next gradients.
    position: Bytes,
    /// The position that a former incarnation of this task saved, or the checkpoint has of it.
    restored_position: Option<Vec<u8>>,
    global_step: u64,
    /// The committed steps that the present values include.
    base_version: u64,
    skipped: u64,
}

impl<M: Module> Session<M> {
    /// A session over `client`, whose servers hold the model.
    pub(crate) fn new(
        server: Server,
        client: Client,
        remote: RemoteModel,
        registry: ParameterRegistry,
        module: M,
        services: Services,
    ) -> Result<Self> {
        let device = module.devices().into_iter().next().unwrap_or_else(phalanx_nn::default_device);
        let (global_step, restored_position) = (client.global_step()?, client.input_position()?);
        let clipper = GradientClipper::of(remote.layout());
        let pending = Pending::new(client.options().task, client.options().incarnation);
        Ok(Self {
            server,
            client: Arc::new(client),
            remote,
            registry,
            module: Some(module),
            device,
            non_finite: NonFinite::default(),
            moving_averages: false,
            pace: Pace::Free,
            last_step: None,
            overlap: None,
            services,
            unfinished: UnfinishedUpdates::default(),
            coordinated: false,
            directive: StepDirective::default(),
            learning_rate: None,
            clipper,
            pending,
            position: Bytes::new(),
            restored_position,
            global_step,
            base_version: global_step,
            skipped: 0,
        })
    }

    pub(crate) fn non_finite(mut self, policy: NonFinite) -> Self {
        self.non_finite = policy;
        self
    }

    /// The layout has the moving averages of the model.
    pub(crate) fn moving_averages(mut self, kept: bool) -> Self {
        self.moving_averages = kept;
        self
    }

    /// Overlaps exchanges with computation from now on, unless the servers are in this process, where nothing is waited for.
    pub(crate) fn overlapped(mut self) -> Result<Self> {
        if !self.client.is_inside() {
            let ahead = BackgroundExchange::start(Arc::clone(&self.client), self.remote.layout().clone())?;
            self.overlap = Some(Overlap::new(ahead));
        }
        Ok(self)
    }

    /// Computes one step: `loss` gets the model with the newest values and returns the loss of this task's batch, or a
    /// `Result` with it. `None` when the job is over.
    ///
    /// # Errors
    /// When the model or its gradients are wrong, or the servers are lost, and what `loss` returns.
    pub fn step<L: IntoLoss>(&mut self, loss: impl FnOnce(&M) -> L) -> Result<Option<Step>> {
        self.step_with_rows(&[], |model, _| loss(model))
    }

    /// Computes one step of a model with tables. `ids` has, for each table used, the batch's ids; `loss` gets their rows in
    /// the same order.
    ///
    /// # Errors
    /// As [`Self::step`].
    pub fn step_with_rows<L: IntoLoss>(
        &mut self,
        ids: &[(TableId, &[i64])],
        loss: impl FnOnce(&M, &[Rows]) -> L,
    ) -> Result<Option<Step>> {
        let device = self.device.clone();
        self.step_with_values(ids, |model, values| {
            let rows: Vec<Rows> =
                values.into_iter().map(|of| Rows::new(of.values, of.dim, &of.positions, &device)).collect();
            let loss = loss(model, &rows).into_loss()?;
            Ok((loss, move |gradients: &mut Gradients| rows.iter().map(|rows| rows.gradients(gradients)).collect()))
        })
    }

    /// Computes one step on rows as plain numbers. `compute` gets the rows and returns the loss and a function from the loss's
    /// gradients to those of the unique rows of each table used, `None` where there are none.
    ///
    /// # Errors
    /// As [`Self::step`], and what `compute` returns.
    pub fn step_with_values<G>(
        &mut self,
        ids: &[(TableId, &[i64])],
        compute: impl FnOnce(&M, Vec<RowValues>) -> Result<(Tensor<1>, G)>,
    ) -> Result<Option<Step>>
    where
        G: FnOnce(&mut Gradients) -> Result<Vec<Option<HostBuffer>>>,
    {
        self.step_with_gradients(ids, |module, registry, rows| {
            StepGradients::compute(registry, module, |module| compute(module, rows))
        })
    }

    /// Computes one step whose gradients `compute` returns as buffers. It gets the model with the newest values, the
    /// registry of its parameters, and the rows.
    ///
    /// # Errors
    /// As [`Self::step`], and what `compute` returns.
    pub fn step_with_gradients(
        &mut self,
        ids: &[(TableId, &[i64])],
        compute: impl FnOnce(&M, &ParameterRegistry, Vec<RowValues>) -> Result<StepGradients>,
    ) -> Result<Option<Step>> {
        let span = tracing::debug_span!(parent: self.server.log().span(), "step", step = self.global_step + 1);
        let step = span.in_scope(|| self.compute(ids, compute));
        self.server.record_failure(step)
    }

    /// Ends training at this global step: once all trainers together have committed that many, [`Self::step`] returns
    /// `None` before anything is computed.
    ///
    /// ```
    /// # use phalanx_nn::burn::{nn::LinearConfig, tensor::Tensor};
    /// # use phalanx_optim::Sgd;
    /// # use phalanx_train::{Server, Supervisor};
    /// # let device = phalanx_nn::default_device();
    /// # let server = Server::local()?;
    /// # let supervisor = Supervisor::new(&server, Sgd::new(0.1));
    /// # let mut session = supervisor.prepare_or_wait_for_session(LinearConfig::new(2, 1).init(&device))?;
    /// # let batch = Tensor::<2>::ones([4, 2], &device);
    /// session.stop_at(3);
    /// while session.step(|model| model.forward(batch.clone()).mean())?.is_some() {}
    /// assert_eq!(session.global_step(), 3);
    /// # supervisor.stop(session)?;
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    pub fn stop_at(&mut self, last: impl Into<Option<u64>>) {
        self.last_step = last.into();
    }

    /// Returns whether the global step of [`Self::stop_at`] is reached.
    #[must_use]
    pub fn has_reached_last_step(&self) -> bool {
        self.last_step.is_some_and(|last| self.global_step >= last)
    }

    /// Returns whether each update is made of the gradients of several trainers.
    #[must_use]
    pub fn is_synchronous(&self) -> bool {
        matches!(self.pace, Pace::Rounds(_))
    }

    /// Returns the model with the values that were fetched last.
    ///
    /// # Errors
    /// When an earlier step panicked half-way.
    pub fn model(&self) -> Result<&M> {
        self.module.as_ref().ok_or_else(|| Error::new(Code::Internal, "the model is gone"))
    }

    /// Returns the table of this name.
    ///
    /// # Errors
    /// When there is none.
    pub fn table(&self, name: &str) -> Result<TableId> {
        let tables = self.remote.layout().tables();
        tables.iter().position(|table| table.name == name).map(TableId).ok_or_else(|| {
            let names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
            Error::new(Code::NoSuchVariable, format!("the model has no table {name:?}"))
                .help(format!("it has {}", names.join(", ")))
        })
    }

    /// Returns the number of committed steps, as of the last exchange.
    #[must_use]
    pub fn global_step(&self) -> u64 {
        self.global_step
    }

    /// Returns the number of steps dropped because something was not finite.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Returns the number of gradients that came too late for their round, in synchronous training.
    ///
    /// # Errors
    /// When the server that counts does not answer.
    pub fn stale(&self) -> Result<u64> {
        Ok(self.client.describe(0)?.stale)
    }

    /// Returns the task that this session belongs to.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Sends the pending gradients. In synchronous training they belong to a round that will not be completed, and are
    /// dropped.
    ///
    /// # Errors
    /// When a server does not answer.
    pub fn finish(&mut self) -> Result<()> {
        let finished = self.send_pending();
        self.server.record_failure(finished)
    }

    fn send_pending(&mut self) -> Result<()> {
        self.settle()?;
        self.finish_lost_updates()?;
        if self.is_synchronous() {
            self.pending.forget();
        } else if let Some(pending) = self.pending.mark_sent() {
            self.global_step = self.client.push(&mut self.remote, pending, UpdateMode::Asynchronous)?.0;
            self.acknowledged();
        }
        if !matches!(self.pace, Pace::Free) {
            self.client.leave_rounds()?;
        }
        self.finish_lost_updates()
    }

    /// Every server has what was pending. A chief keeps it, to complete the update of a lost trainer with it.
    fn acknowledged(&mut self) {
        if let Some(update) = self.pending.take_sent() {
            self.keep_pushed(update);
        }
    }

    fn keep_pushed(&mut self, update: Push) {
        if self.server.is_chief() && !self.coordinated {
            self.unfinished.keep_pushed(update);
        }
    }

    /// The chief: fences lost trainers, and completes the update that one of them left on some servers only.
    pub(crate) fn finish_lost_updates(&mut self) -> Result<()> {
        if self.coordinated {
            return Ok(());
        }
        let synchronous = self.is_synchronous();
        self.unfinished.finish(&self.server, &self.client, &mut self.remote, synchronous)
    }
}
