//! The worker's loop: pull values, compute, push gradients.
//!
//! Every step sends the gradients of the step before in the message that asks for the newest values, so a step costs
//! one round trip. Between two steps one gradient is therefore on its way; [`Session::finish`] sends the last one. Where
//! steps overlap, even that round trip goes on while something is computed.

mod orphans;
mod overlap;
mod pending;
mod rounds;
mod step;
mod turn;
mod values;

use crate::Server;
use crate::services::Services;
use bytes::Bytes;
use orphans::Orphans;
use overlap::Overlap;
use pending::Pending;
use phalanx_base::{Code, Error, Result};
use phalanx_nn::burn::module::Module;
use phalanx_nn::burn::tensor::{Device, Gradients, Tensor};
use phalanx_nn::{Book, Flat, Rows};
use phalanx_ps::Client;
use phalanx_ps::client::{Ahead, Mode, Push, Remote};
use rounds::Rounds;
use std::sync::Arc;

pub use rounds::SyncReplicas;
pub(crate) use turn::Turn;
pub(crate) use values::to_wire;

/// What to do when a gradient or the loss is not a finite number.
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
    /// Drop the step's gradients, say so, and go on.
    Skip,
}

/// What one step showed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The loss on this step's batch.
    pub loss: f32,
    /// The steps that all trainers have committed so far.
    pub global_step: u64,
}

/// The rows that a batch needs of one table, as numbers.
#[derive(Clone, Debug)]
pub struct RowValues {
    /// The unique rows, one after the other.
    pub values: Vec<f32>,
    /// How many numbers a row has.
    pub dim: usize,
    /// For each id of the batch, which of the unique rows it means.
    pub positions: Vec<u32>,
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
    remote: Remote,
    book: Book,
    /// `None` only while values are being put into it.
    module: Option<M>,
    device: Device,
    non_finite: NonFinite,
    rounds: Option<Rounds>,
    /// Where exchanges go on while steps are computed.
    overlap: Option<Overlap>,
    services: Services,
    orphans: Orphans,
    /// A coordinator deals with lost trainers, not this session.
    coordinated: bool,
    /// How it wants the next step done.
    turn: Turn,
    /// The learning rate of dense gradients, where it is not that of the supervisor's optimizer.
    learning_rate: Option<f32>,
    pending: Pending,
    /// Goes with the next gradients.
    note: Bytes,
    /// What a former life of this task left, or the checkpoint has of it.
    recalled: Option<Vec<u8>>,
    global_step: u64,
    /// The committed steps that the values at hand have.
    basis: u64,
    skipped: u64,
}

/// What a [`Session`] is made of.
pub(crate) struct Parts<M> {
    pub(crate) server: Server,
    pub(crate) client: Client,
    pub(crate) remote: Remote,
    pub(crate) book: Book,
    pub(crate) module: M,
    pub(crate) non_finite: NonFinite,
    pub(crate) sync: Option<u32>,
    pub(crate) overlap: bool,
    pub(crate) services: Services,
}

impl<M: Module> Session<M> {
    pub(crate) fn new(parts: Parts<M>) -> Result<Self> {
        let device = parts.module.devices().into_iter().next().unwrap_or_else(phalanx_nn::default_device);
        let rounds = parts.sync.map(|replicas| Rounds::join(&parts.client, replicas)).transpose()?;
        let client = Arc::new(parts.client);
        let (global_step, recalled) = (client.global_step()?, client.recall()?);
        let pending = Pending::new(client.options().task, client.options().incarnation);
        // A process that is the whole job has nobody to wait for.
        let overlap = (parts.overlap && !client.is_inside())
            .then(|| Ahead::start(Arc::clone(&client), parts.remote.layout().clone()).map(Overlap::new))
            .transpose()?;
        Ok(Self {
            server: parts.server,
            client,
            remote: parts.remote,
            book: parts.book,
            module: Some(parts.module),
            device,
            non_finite: parts.non_finite,
            rounds,
            overlap,
            services: parts.services,
            orphans: Orphans::default(),
            coordinated: false,
            turn: Turn::default(),
            learning_rate: None,
            pending,
            note: Bytes::new(),
            recalled,
            global_step,
            basis: global_step,
            skipped: 0,
        })
    }

    /// Computes one step: `loss` gets the model with the newest values and returns the loss of this task's batch.
    /// `None` when the job is over.
    ///
    /// # Errors
    /// When the model or its gradients are wrong, or the servers are lost.
    pub fn step(&mut self, loss: impl FnOnce(&M) -> Tensor<1>) -> Result<Option<Step>> {
        self.step_with_rows(&[], |model, _| loss(model))
    }

    /// The same for a model with tables: `ids` names for each table used its number and the batch's ids; `loss` gets
    /// their rows in the same order.
    ///
    /// # Errors
    /// As [`Self::step`].
    pub fn step_with_rows(
        &mut self,
        ids: &[(usize, &[i64])],
        loss: impl FnOnce(&M, &[Rows]) -> Tensor<1>,
    ) -> Result<Option<Step>> {
        let device = self.device.clone();
        self.step_with_values(ids, |model, values| {
            let rows: Vec<Rows> =
                values.into_iter().map(|of| Rows::new(of.values, of.dim, &of.positions, &device)).collect();
            let loss = loss(model, &rows);
            Ok((loss, move |gradients: &mut Gradients| rows.iter().map(|rows| rows.gradients(gradients)).collect()))
        })
    }

    /// The same for who looks rows up by hand: `compute` gets the numbers of the rows and returns the loss, and what
    /// makes of its gradients those of the unique rows of each table used, `None` where there are none.
    ///
    /// # Errors
    /// As [`Self::step`], and what `compute` returns.
    pub fn step_with_values<G>(
        &mut self,
        ids: &[(usize, &[i64])],
        compute: impl FnOnce(&M, Vec<RowValues>) -> Result<(Tensor<1>, G)>,
    ) -> Result<Option<Step>>
    where
        G: FnOnce(&mut Gradients) -> Result<Vec<Option<Flat>>>,
    {
        let step = self.compute(ids, compute);
        self.server.note(step)
    }

    /// The model with the values that were fetched last.
    ///
    /// # Errors
    /// When an earlier step panicked half-way.
    pub fn model(&self) -> Result<&M> {
        self.module.as_ref().ok_or_else(|| Error::new(Code::Internal, "the model is gone"))
    }

    /// The committed steps, as of the last exchange.
    #[must_use]
    pub fn global_step(&self) -> u64 {
        self.global_step
    }

    /// Steps dropped because something was not finite.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Synchronous mode: gradients that came too late for their round, counted by the servers.
    ///
    /// # Errors
    /// When the server that counts does not answer.
    pub fn stale(&self) -> Result<u64> {
        Ok(self.client.describe(0)?.stale)
    }

    /// The task this session belongs to.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Sends what is pending and leaves the servers in good order. In synchronous mode the last gradient belongs to a
    /// round that will not be completed, and is dropped.
    ///
    /// # Errors
    /// When a server does not answer.
    pub fn finish(&mut self) -> Result<()> {
        self.settle()?;
        self.finish_orphans()?;
        if self.rounds.is_some() {
            self.pending.forget();
            self.client.leave_rounds()?;
        } else if let Some(pending) = self.pending.mark_sent() {
            self.global_step = self.client.push(&mut self.remote, pending, Mode::Asynchronous)?.0;
            self.acknowledged();
        }
        self.finish_orphans()
    }

    /// Every server has what was pending. A chief keeps it, to finish with it what a lost trainer began.
    fn acknowledged(&mut self) {
        if let Some(update) = self.pending.take_sent() {
            self.keep_pushed(update);
        }
    }

    fn keep_pushed(&mut self, update: Push) {
        if self.server.is_chief() && !self.coordinated {
            self.orphans.remember(update);
        }
    }

    /// The chief: shuts lost trainers out, and finishes the step that one of them left half pushed.
    pub(crate) fn finish_orphans(&mut self) -> Result<()> {
        if self.coordinated {
            return Ok(());
        }
        let synchronous = self.rounds.is_some();
        self.orphans.finish(&self.server, &self.client, &mut self.remote, synchronous)
    }
}
