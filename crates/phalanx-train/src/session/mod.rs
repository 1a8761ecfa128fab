//! The worker's loop: pull values, compute, push gradients.
//!
//! Every step sends the gradients of the step before in the message that asks for the newest values, so a step costs
//! one round trip. Between two steps one gradient is therefore on its way; [`Session::finish`] sends the last one.

mod orphans;
mod rounds;
mod turn;
mod values;

use crate::Server;
use crate::services::Services;
use bytes::Bytes;
use orphans::Orphans;
use phalanx_base::{Code, Error, Result, UpdateName};
use phalanx_nn::burn::module::Module;
use phalanx_nn::burn::tensor::{Device, Gradients, Tensor};
use phalanx_nn::{Book, Rows, all_finite, scalar};
use phalanx_ps::Client;
use phalanx_ps::client::{Mode, Pulled, Push, Remote, RowGradients, RowSet};

use rounds::Rounds;
pub use rounds::SyncReplicas;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
pub(crate) use turn::Turn;

/// What to do when a gradient or the loss is not a finite number.
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
pub struct Session<M> {
    server: Server,
    client: Client,
    remote: Remote,
    book: Book,
    /// `None` only while values are being put into it.
    module: Option<M>,
    device: Device,
    non_finite: NonFinite,
    rounds: Option<Rounds>,
    services: Services,
    orphans: Orphans,
    sent: u64,
    /// A coordinator deals with lost trainers, not this session.
    coordinated: bool,
    /// How it wants the next step done.
    turn: Turn,
    /// The learning rate of what is pushed, where it is not the optimizers' own.
    learning_rate: Option<f32>,
    pending: Option<Push>,
    /// Goes with the next gradients.
    note: Bytes,
    /// What a former life of this task left, or the checkpoint has of it.
    recalled: Option<Vec<u8>>,
    global_step: u64,
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
    pub(crate) services: Services,
}

impl<M: Module> Session<M> {
    pub(crate) fn new(parts: Parts<M>) -> Result<Self> {
        let device = parts.module.devices().into_iter().next().unwrap_or_else(phalanx_nn::default_device);
        let rounds = parts.sync.map(|replicas| Rounds::join(&parts.client, replicas)).transpose()?;
        let global_step = parts.client.global_step()?;
        let recalled = parts.client.recall()?;
        Ok(Self {
            server: parts.server,
            client: parts.client,
            remote: parts.remote,
            book: parts.book,
            module: Some(parts.module),
            device,
            non_finite: parts.non_finite,
            rounds,
            services: parts.services,
            orphans: Orphans::default(),
            sent: 0,
            coordinated: false,
            turn: Turn::default(),
            learning_rate: None,
            pending: None,
            note: Bytes::new(),
            recalled,
            global_step,
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
        G: FnOnce(&mut Gradients) -> Result<Vec<Option<Bytes>>>,
    {
        let step = self.compute(ids, compute);
        self.server.note(step)
    }

    fn compute<G>(
        &mut self,
        ids: &[(usize, &[i64])],
        compute: impl FnOnce(&M, Vec<RowValues>) -> Result<(Tensor<1>, G)>,
    ) -> Result<Option<Step>>
    where
        G: FnOnce(&mut Gradients) -> Result<Vec<Option<Bytes>>>,
    {
        if self.server.should_stop() {
            return Ok(None);
        }
        let sets = self.row_sets(ids)?;
        let pulled = match self.exchange(&sets) {
            Ok(Some(pulled)) => pulled,
            Ok(None) => return Ok(None),
            // The servers may go before a slow trainer hears that the job is over.
            Err(_) if self.server.should_stop() => return Ok(None),
            Err(error) => return Err(error),
        };
        let lag = pulled.global_step.saturating_sub(self.global_step + 1);
        self.global_step = self.global_step.max(pulled.global_step);
        let module = self.load(pulled.dense)?;
        let rows = self.row_values(&sets, pulled.rows);
        // A panic of the caller's must not take the model with it.
        let computed = match catch_unwind(AssertUnwindSafe(|| compute(&module, rows))) {
            Ok(computed) => computed,
            Err(panic) => {
                self.module = Some(module);
                resume_unwind(panic)
            }
        };
        let dense = computed.and_then(|(loss, of_rows)| {
            let mut gradients = loss.backward();
            let dense = self.book.gradients(&module, &mut gradients)?;
            Ok((scalar(loss)?, dense, of_rows(&mut gradients)?))
        });
        self.module = Some(module);
        let (value, dense, of_rows) = dense?;
        let row_gradients = sets.into_iter().zip(of_rows);
        let row_gradients =
            row_gradients.filter_map(|(set, gradients)| Some(RowGradients { set, gradients: gradients? })).collect();
        self.keep(value, dense, row_gradients)?;
        self.services.stepped(self.global_step, value);
        self.server.pulse().stepped(self.global_step, lag, value);
        Ok(Some(Step { loss: value, global_step: self.global_step }))
    }

    fn row_sets(&self, ids: &[(usize, &[i64])]) -> Result<Vec<RowSet>> {
        let tables = self.remote.layout().tables().len();
        let set = |&(table, ids): &(usize, &[i64])| {
            if table >= tables {
                return Err(Error::new(Code::NoSuchVariable, format!("there is no table number {table}"))
                    .because(format!("the model has {tables}")));
            }
            Ok(RowSet::new(table, ids, self.client.servers()))
        };
        ids.iter().map(set).collect()
    }

    fn row_values(&self, sets: &[RowSet], rows: Vec<Vec<f32>>) -> Vec<RowValues> {
        let of = |(set, values): (&RowSet, Vec<f32>)| {
            let dim = self.remote.layout().tables()[set.table()].dim;
            RowValues { values, dim, positions: set.positions().to_vec() }
        };
        sets.iter().zip(rows).map(of).collect()
    }

    /// Sends what is pending and fetches what is new.
    fn exchange(&mut self, sets: &[RowSet]) -> Result<Option<Pulled>> {
        self.finish_orphans()?;
        // Stays pending if this fails: sent again under the same name, it counts once.
        let pending = self.pending.as_ref();
        let pulled = match &mut self.rounds {
            None => Some(self.client.exchange(&mut self.remote, pending, sets, self.turn.mode())?),
            Some(rounds) => {
                rounds.exchange(&self.server, &self.client, &mut self.remote, pending, sets, &mut self.orphans)?
            }
        };
        if let Some(pushed) = self.pending.take() {
            self.orphans.remember(pushed);
        }
        Ok(pulled)
    }

    fn load(&mut self, values: Vec<Option<Vec<f32>>>) -> Result<M> {
        let module = self.module.take().ok_or_else(|| {
            Error::new(Code::Internal, "the model is gone").because("an earlier step of this session did not end")
        })?;
        Ok(self.book.load(module, values))
    }

    /// Names this step's gradients and keeps them for the next message.
    fn keep(&mut self, loss: f32, dense: Vec<Option<Bytes>>, rows: Vec<RowGradients>) -> Result<()> {
        if let Some(what) = self.not_finite(loss, &dense, &rows) {
            let place = format!("{}, step {}", self.server.task(), self.global_step + 1);
            if self.non_finite == NonFinite::Stop {
                return Err(Error::new(Code::NotFinite, what)
                    .at(place)
                    .because("it contains NaN or an infinity")
                    .help("lower the learning rate, look for bad values in the input, or skip such steps"));
            }
            self.skipped += 1;
            self.server.say(&format!("step skipped: {what} ({place})"));
            return Ok(());
        }
        let (name, note) = match self.turn.on_behalf_of.take() {
            // The lost one's input is not where this task's is.
            Some(name) => (name, Bytes::new()),
            None => {
                self.sent += 1;
                let options = self.client.options();
                let name = UpdateName { task: options.task, incarnation: options.incarnation, sequence: self.sent };
                (name, std::mem::take(&mut self.note))
            }
        };
        let (basis, clock, learning_rate) = (Some(self.global_step), self.turn.clock, self.learning_rate);
        self.pending = Some(Push { name, dense, rows, note, basis, clock, learning_rate });
        Ok(())
    }

    fn not_finite(&self, loss: f32, dense: &[Option<Bytes>], rows: &[RowGradients]) -> Option<String> {
        let parameters = self.book.parameters().iter().map(|parameter| &parameter.name);
        let bad = |bytes: &Option<Bytes>| bytes.as_ref().is_some_and(|bytes| !all_finite(bytes));
        if let Some((name, _)) = parameters.zip(dense).find(|(_, gradient)| bad(gradient)) {
            return Some(format!("the gradient of {name:?} is not finite"));
        }
        if let Some(rows) = rows.iter().find(|rows| !all_finite(&rows.gradients)) {
            let name = &self.remote.layout().tables()[rows.set.table()].name;
            return Some(format!("the gradient of table {name:?} is not finite"));
        }
        (!loss.is_finite()).then(|| "the loss is not finite".to_owned())
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
        self.finish_orphans()?;
        match (&self.rounds, self.pending.take()) {
            (Some(_), _) => self.client.leave_rounds()?,
            (None, Some(pending)) => {
                self.global_step = self.client.push(&mut self.remote, &pending, Mode::Asynchronous)?.0;
                self.orphans.remember(pending);
            }
            (None, None) => {}
        }
        self.finish_orphans()
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
