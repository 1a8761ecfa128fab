//! The worker's loop: pull values, compute, push gradients.
//!
//! Every step sends the gradients of the step before in the message that asks for the newest values, so a step costs
//! one round trip. Between two steps one gradient is therefore pending; [`Session::finish`] sends the last one. Where
//! steps overlap, even that round trip proceeds during the computation.
//!
//! | file | contents |
//! | --- | --- |
//! | `mod` | [`Session`]: what a step does, and the end of training |
//! | `steps` | [`Session`]: the ways to compute a step |
//! | `values` | [`Session`]: values, input positions, checkpoints, and what a coordinator needs |
//! | `state` | the state machine: how steps reach the servers; `overlap`, `rounds`, `bounded` are states |
//! | `connection`, `unfinished_updates` | the model on the servers; updates of lost trainers |
//! | `local_model` | the trainer's own copy of the model |
//! | `gradients`, `clip`, `pending` | from gradients to an update with an id |
//! | `outputs`, `measures` | what a step's closure returns; what the chief writes about a step |
//! | `clock` | the global step |

mod bounded;
mod clip;
mod clock;
mod connection;
mod gradients;
mod input_blocks;
mod local_model;
mod measures;
mod outputs;
mod overlap;
mod pending;
mod rounds;
mod state;
mod step;
mod steps;
mod unfinished_updates;
mod values;

pub use bounded::BoundedStaleness;
pub(crate) use local_model::{LocalModel, wire_values};
pub(crate) use measures::NormRequest;
pub use outputs::{IntoLoss, IntoStep};
pub use rounds::SyncReplicas;
pub(crate) use state::StepDirective;
pub use step::{NonFinite, RowValues, Step, StepGradients};

use crate::services::Services;
use crate::{Server, TableId};
use bytes::Bytes;
use clock::StepClock;
use connection::Connection;
use gradients::GradientPolicy;
use pending::Pending;
use phalanx_base::Result;
use phalanx_nn::{ParameterRegistry, Parameters};
use phalanx_ps::Client;
use phalanx_ps::client::{Pulled, Push, RemoteModel, RowSet, UpdateMode};
use state::StepState;
use std::time::{Duration, Instant};
use values::InputPosition;

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
    connection: Connection,
    local: LocalModel<M>,
    state: StepState,
    gradients: GradientPolicy,
    pending: Pending,
    input: InputPosition,
    clock: StepClock,
    services: Services,
}

impl<M: Parameters> Session<M> {
    /// A session over `client`, whose servers hold the model. Its steps are direct.
    pub(crate) fn new(
        server: Server,
        client: Client,
        remote: RemoteModel,
        local: LocalModel<M>,
        non_finite: NonFinite,
        services: Services,
    ) -> Result<Self> {
        let clock = StepClock::at(client.global_step()?);
        let input = InputPosition::restored(client.input_position()?);
        let gradients = GradientPolicy::new(remote.layout(), local.registry().parameters().len(), non_finite);
        let pending = Pending::new(client.options().task, client.options().incarnation);
        let connection = Connection::new(server, client, remote);
        Ok(Self { connection, local, state: StepState::Direct, gradients, pending, input, clock, services })
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
        self.clock.last_step = last.into();
    }

    /// Returns whether the global step of [`Self::stop_at`] is reached.
    #[must_use]
    pub fn has_reached_last_step(&self) -> bool {
        self.clock.is_over()
    }

    /// Returns whether each update is made of the gradients of several trainers.
    #[must_use]
    pub fn is_synchronous(&self) -> bool {
        self.state.is_synchronous()
    }

    /// Returns the global step: the number of updates that all trainers have sent, as of this task's last exchange. An
    /// update is a step; in synchronous training it is a round. The gradients of the last step are not in it before they
    /// are sent.
    #[must_use]
    pub fn global_step(&self) -> u64 {
        self.clock.global_step
    }

    /// Announces the ids of the step *after* the next one, for each table that it uses. Where steps overlap
    /// ([`Supervisor::overlap`](crate::Supervisor::overlap)), their rows are fetched while the next step is computed;
    /// elsewhere this does nothing. A step with other ids than were announced fetches its rows itself.
    ///
    /// ```
    /// # use phalanx_nn::burn::nn::LinearConfig;
    /// # use phalanx_optim::Sgd;
    /// # use phalanx_ps::{TableSpec, plan::RowInitializer};
    /// # use phalanx_train::{Server, Supervisor};
    /// # let server = Server::local()?;
    /// let table = TableSpec { name: "table".into(), dim: 2, initializer: RowInitializer::constant(0.5), optimizer: Sgd::new(0.1).into() };
    /// let mut supervisor = Supervisor::new(&server, Sgd::new(0.1)).overlap(true);
    /// let table = supervisor.table(table)?;
    /// # let device = phalanx_nn::default_device();
    /// let mut session = supervisor.prepare_or_wait_for_session(LinearConfig::new(2, 1).init(&device))?;
    /// let batches = [[1_i64, 2], [2, 3], [1, 3]];
    /// for (at, ids) in batches.iter().enumerate() {
    ///     if let Some(next) = batches.get(at + 1) {
    ///         session.announce(&[(table, next)])?;
    ///     }
    ///     session.step_with_rows(&[(table, ids)], |model, rows| model.forward(rows[0].lookup()).sum())?;
    /// }
    /// supervisor.stop(session)?;
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// When there is no such table.
    pub fn announce(&mut self, ids: &[(TableId, &[i64])]) -> Result<()> {
        match &mut self.state {
            StepState::Overlapped(overlap) => overlap.announce(&self.connection, ids),
            _ => Ok(()),
        }
    }

    /// Drops the gradients of the last step, if they have not been sent, and returns whether it did: that step then does
    /// not count. Gradients whose exchange failed cannot be dropped, because a server may have applied them; they go with the
    /// next step.
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
    /// session.step(|model| model.forward(batch.clone()).mean())?;
    /// assert!(session.forget_last_step());
    /// session.step(|model| model.forward(batch.clone()).mean())?;
    /// session.finish()?;
    /// assert_eq!(session.global_step(), 1);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    pub fn forget_last_step(&mut self) -> bool {
        self.pending.forget()
    }

    /// Sends the pending gradients now instead of with the next step, and fetches the newest values. In synchronous training
    /// it waits until the round of the gradients is closed, or until they are needed in another one.
    ///
    /// # Errors
    /// When a server does not answer.
    pub fn commit(&mut self) -> Result<()> {
        self.settle()?;
        self.exchange(&[])?.map_or(Ok(()), |pulled| self.take(pulled))
    }

    /// Synchronous training: waits until this many trainers take part in the rounds, for at most `longest`, so that the first
    /// rounds have a gradient of each. Nobody waits for a trainer that comes later.
    ///
    /// # Errors
    /// When the server that counts does not answer.
    pub fn wait_for_trainers(&self, trainers: usize, longest: Duration) -> Result<()> {
        let (began, mut logged) = (Instant::now(), Duration::ZERO);
        while self.is_synchronous() && !self.server().should_stop() && began.elapsed() < longest {
            let members = self.connection.client.describe(0)?.members;
            if members >= trainers as u64 {
                break;
            }
            if began.elapsed() > logged + Duration::from_secs(5) {
                logged = began.elapsed();
                self.server()
                    .in_scope(|| tracing::info!("waiting for {trainers} trainers to step: {members} are here"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Sends the pending gradients. In synchronous training they belong to a round that will not be completed, and are
    /// dropped.
    ///
    /// # Errors
    /// When a server does not answer.
    pub fn finish(&mut self) -> Result<()> {
        let finished = self.send_pending();
        self.server().record_failure(finished)
    }

    fn send_pending(&mut self) -> Result<()> {
        self.settle()?;
        self.finish_lost_updates()?;
        if self.is_synchronous() {
            self.pending.forget();
        } else if let Some(pending) = self.pending.mark_sent() {
            self.clock.global_step = self.connection.push(pending, UpdateMode::Asynchronous)?;
            self.acknowledged();
        }
        if self.state.is_awaited() {
            self.connection.client.leave_rounds()?;
        }
        self.finish_lost_updates()
    }

    /// The chief: fences lost trainers, and completes the update that one of them left on some servers only. A coordinator
    /// does that itself.
    pub(crate) fn finish_lost_updates(&mut self) -> Result<()> {
        self.state.finish_lost_updates(&mut self.connection)
    }

    fn compute(
        &mut self,
        ids: &[(TableId, &[i64])],
        compute: impl FnOnce(&M, &ParameterRegistry, Vec<RowValues>) -> Result<StepGradients>,
    ) -> Result<Option<Step>> {
        if self.server().should_stop() {
            return Ok(None);
        }
        let (sets, pulled) = match self.fetch(ids) {
            Ok(Some(fetched)) => fetched,
            Ok(None) => return Ok(None),
            // The servers may go before a slow trainer hears that the job is over.
            Err(_) if self.server().should_stop() => return Ok(None),
            Err(error) => return Err(error),
        };
        let lag = self.clock.begin_step(pulled.global_step, self.state.steps_in_flight());
        self.local.load(pulled.dense)?;
        if self.clock.is_over() {
            return Ok(None);
        }
        let rows = self.connection.row_values(&sets, pulled.rows);
        let computed = self.local.compute(rows, compute)?;
        self.gradients.learning_rate = computed.learning_rate.or(self.gradients.learning_rate);
        let (loss, measures) = (computed.loss, self.measure(&computed));
        self.keep(computed, sets)?;
        let global_step = self.clock.global_step;
        self.services.stepped(global_step);
        measures.map_or(Ok(()), |measures| self.write(&measures))?;
        self.server().progress().stepped(global_step, Some(lag), loss);
        Ok(Some(Step { loss: loss.unwrap_or(f32::NAN), global_step, value: () }))
    }

    /// Sends the pending gradients, and fetches new values and the rows of these ids. `None` when the job is over.
    fn fetch(&mut self, ids: &[(TableId, &[i64])]) -> Result<Option<(Vec<RowSet>, Pulled)>> {
        if let StepState::Overlapped(overlap) = &mut self.state {
            return overlap.fetch(&mut self.connection, &mut self.pending, ids).map(Some);
        }
        let sets = self.connection.row_sets(ids)?;
        Ok(self.exchange(&sets)?.map(|pulled| (sets, pulled)))
    }

    fn exchange(&mut self, sets: &[RowSet]) -> Result<Option<Pulled>> {
        // Stays pending if this fails: sent again under the same name, it counts once.
        let pulled = self.state.exchange(&mut self.connection, self.pending.mark_sent(), sets)?;
        self.acknowledged();
        self.connection.look_up_closed_rounds(self.state.mode());
        Ok(pulled)
    }

    /// Every server has what was pending.
    fn acknowledged(&mut self) {
        if let Some(update) = self.pending.take_sent() {
            self.connection.keep_pushed(update);
        }
    }

    /// Waits for the in-flight exchange, if any, to complete.
    fn settle(&mut self) -> Result<()> {
        let arrived = match &mut self.state {
            StepState::Overlapped(overlap) => overlap.settle(&mut self.connection)?,
            _ => None,
        };
        arrived.map_or(Ok(()), |pulled| self.take(pulled))
    }

    /// Takes new values, without their rows.
    fn take(&mut self, pulled: Pulled) -> Result<()> {
        self.clock.reached(pulled.global_step);
        self.local.load(pulled.dense)
    }

    /// Gives this step's gradients their id and keeps them for the next message.
    fn keep(&mut self, mut computed: StepGradients, mut sets: Vec<RowSet>) -> Result<()> {
        // Gradients that are missing at the end are none.
        computed.rows.resize_with(sets.len(), || None);
        for (table, ids, gradients) in std::mem::take(&mut computed.looked_up) {
            sets.extend(self.connection.row_sets(&[(table, &ids)])?);
            computed.rows.push(Some(gradients));
        }
        let known = (&self.connection.server, self.local.registry(), self.connection.layout());
        let update = self.gradients.apply(known, self.clock.global_step + 1, computed, sets)?;
        let Some((dense, rows)) = update else { return Ok(()) };
        let clock = self.state.directive().clock;
        let (id, input_position) = match self.state.take_lost_update() {
            // The position in the input is this task's, not that of the lost one.
            Some(id) => (id, Bytes::new()),
            None => (self.pending.own_name(), self.input.take()),
        };
        let (base_version, learning_rate) = (Some(self.clock.base_version), self.gradients.learning_rate);
        self.pending.keep(Push { id, dense, rows, input_position, base_version, clock, learning_rate });
        Ok(())
    }
}
