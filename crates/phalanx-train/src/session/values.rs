//! The values of a session: fetch, look up, replace, save. And what a coordinator needs of it.

use super::bounded::{BoundedStaleness, Lead};
use super::overlap::Overlap;
use super::rounds::Rounds;
use super::state::{StepDirective, StepState};
use super::{NormRequest, RowValues, Session};
use crate::checkpoint::{Saved, StepSource};
use crate::services::ProgressWriter;
use crate::summary::SummaryWriter;
use crate::tables::{RowReader, ServerRows};
use crate::{Server, TableId};
use bytes::Bytes;
use phalanx_base::{Code, Error, Result, Shape, UpdateId};
use phalanx_nn::Parameters;
use phalanx_ps::Layout;
use phalanx_ps::client::UpdateMode;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// How long a save that the caller waits for may take.
const SAVE: Duration = Duration::from_secs(3600);

/// The position in a task's input.
pub(super) struct InputPosition {
    /// Goes with the next gradients.
    next: Bytes,
    /// What a former incarnation of this task saved, or the checkpoint has of it.
    restored: Option<Vec<u8>>,
}

impl InputPosition {
    pub(super) fn restored(restored: Option<Vec<u8>>) -> Self {
        Self { next: Bytes::new(), restored }
    }

    /// Takes the position that goes with the next gradients.
    pub(super) fn take(&mut self) -> Bytes {
        std::mem::take(&mut self.next)
    }
}

impl<M: Parameters> Session<M> {
    /// Returns the task that this session belongs to.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.connection.server
    }

    /// Returns the model with the values that were fetched last.
    ///
    /// # Errors
    /// When an earlier step panicked half-way.
    pub fn model(&self) -> Result<&M> {
        self.local.module()
    }

    /// Returns the table of this name.
    ///
    /// # Errors
    /// When there is none.
    pub fn table(&self, name: &str) -> Result<TableId> {
        let tables = self.layout().tables();
        tables.iter().position(|table| table.name == name).map(TableId).ok_or_else(|| {
            let names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
            Error::new(Code::NoSuchVariable, format!("the model has no table {name:?}"))
                .help(format!("it has {}", names.join(", ")))
        })
    }

    /// Returns the number of steps dropped because something was not finite.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.gradients.skipped
    }

    /// Returns the number of gradients that came too late for their round, in synchronous training.
    ///
    /// # Errors
    /// When the server that counts does not answer.
    pub fn stale(&self) -> Result<u64> {
        Ok(self.connection.client.describe(0)?.stale)
    }

    /// Saves a checkpoint and waits for it, where this task is the chief and has a run directory. Other trainers continue.
    ///
    /// # Errors
    /// When it cannot be saved.
    pub fn save(&mut self) -> Result<()> {
        self.services.save_within(SAVE)
    }

    /// Saves at the end of training; within seconds where this process was asked to stop.
    pub(crate) fn save_last(&mut self) -> Result<()> {
        self.end_summaries();
        self.services.save_within(match self.server().job().interrupted().map(|why| why.code()) {
            None => SAVE,
            Some(Code::Terminated) => Duration::from_secs(20),
            Some(_) => Duration::from_secs(4),
        })
    }

    /// Writes that training has stopped.
    pub(crate) fn end_summaries(&self) {
        self.services.summaries.stopped(self.clock.global_step);
    }

    /// Saves the position in this task's input, at most 64 KiB, with the next step: it counts as soon as that step does, and
    /// checkpoints have both.
    pub fn save_position(&mut self, position: impl Into<Vec<u8>>) {
        self.input.next = position.into().into();
    }

    /// Returns the position in the input that this task saved with its last step before it was started again, or that the
    /// restored checkpoint has.
    #[must_use]
    pub fn restore_position(&self) -> Option<&[u8]> {
        self.input.restored.as_deref()
    }

    /// Returns the newest checkpoint that this task saved.
    #[must_use]
    pub fn newest_checkpoint(&self) -> Option<Saved> {
        self.services.newest()
    }

    /// Returns the writer of summaries. It writes nothing on tasks other than the chief, and without a run directory.
    #[must_use]
    pub fn summaries(&self) -> &SummaryWriter {
        &self.services.summaries
    }

    /// Sets the learning rate of the supervisor's optimizer for this trainer's steps from now on; `None` goes back to the
    /// rate or schedule that the optimizer was made with. Tables, and variables with an optimizer of their own
    /// ([`Supervisor::optimizer_of`](crate::Supervisor::optimizer_of)), keep their rates, as variables of another optimizer
    /// object do in Keras.
    pub fn set_learning_rate(&mut self, rate: impl Into<Option<f32>>) {
        self.gradients.learning_rate = rate.into();
    }

    /// Returns the request for the norm of a step's gradients.
    pub(crate) fn norm_request(&mut self) -> &mut NormRequest {
        &mut self.gradients.norm
    }

    /// Returns the writer of summaries, to be shared; `None` where it writes nothing.
    pub(crate) fn shared_summaries(&self) -> Option<Arc<SummaryWriter>> {
        self.services.summaries.is_on().then(|| Arc::clone(&self.services.summaries))
    }

    /// Fetches all variables, as the servers have them now.
    ///
    /// # Errors
    /// When a server does not answer.
    pub fn values(&mut self) -> Result<Vec<(String, Shape, Vec<f32>)>> {
        self.refresh()?;
        self.present_values()
    }

    /// Returns all variables as they were last fetched.
    pub(crate) fn present_values(&self) -> Result<Vec<(String, Shape, Vec<f32>)>> {
        self.local.values()
    }

    /// Reads the numbers `elements` of the variable with this index from the servers, and nothing else.
    pub(crate) fn read(&mut self, variable: usize, elements: Range<usize>) -> Result<Vec<f32>> {
        self.connection.client.read(&mut self.connection.remote, variable, elements, self.state.mode())
    }

    /// Reads the rows of these ids from the servers, one for each id, and nothing else.
    pub(crate) fn read_rows(&mut self, table: TableId, ids: &[i64]) -> Result<Vec<f32>> {
        let sets = self.connection.row_sets(&[(table, ids)])?;
        let rows = self.connection.client.read_rows(&mut self.connection.remote, &sets, self.state.mode())?;
        let row = |of: &RowValues, at: u32| of.values[at as usize * of.dim..][..of.dim].to_vec();
        let of = self.connection.row_values(&sets, rows);
        Ok(of.iter().flat_map(|of| of.positions.iter().flat_map(move |&at| row(of, at))).collect())
    }

    /// Replaces the values of all variables on the servers by those of `module`; the optimizers' slots stay. Other trainers
    /// continue, and compute their next step on the new values.
    ///
    /// # Errors
    /// When the module is not the session's, or a server does not answer.
    pub fn replace(&mut self, module: &M) -> Result<()> {
        let values = self.local.wire_values_of(module)?;
        let closed = self.closed_rounds();
        self.settle()?;
        self.connection.client.replace(&mut self.connection.remote, &values, closed)?;
        self.refresh()
    }

    /// Fetches the newest values into the model.
    ///
    /// # Errors
    /// When a server does not answer.
    pub fn refresh(&mut self) -> Result<()> {
        self.look_up(&[]).map(drop)
    }

    /// Fetches the newest values into the model, and returns the rows of these ids: for each table used, the ids. Rows that
    /// do not exist yet are created.
    ///
    /// # Errors
    /// When there is no such table, or a server does not answer.
    pub fn look_up(&mut self, ids: &[(TableId, &[i64])]) -> Result<Vec<RowValues>> {
        self.settle()?;
        let sets = self.connection.row_sets(ids)?;
        let pulled = self.connection.exchange(None, &sets, self.state.mode());
        // Where the job has failed, that is the reason, not the connection that was lost with it.
        let mut pulled = pulled.map_err(|error| {
            let job = self.server().job();
            job.interrupted().or_else(|| job.failure()).unwrap_or(error)
        })?;
        let rows = std::mem::take(&mut pulled.rows);
        self.take(pulled)?;
        self.connection.look_up_closed_rounds(self.state.mode());
        Ok(self.connection.row_values(&sets, rows))
    }

    /// Returns a reader of rows that a step can use while it is computed. The gradients of rows read so belong into
    /// [`StepGradients::looked_up`](crate::StepGradients::looked_up).
    ///
    /// ```
    /// # use phalanx_nn::burn::nn::LinearConfig;
    /// # use phalanx_optim::Sgd;
    /// # use phalanx_ps::{TableSpec, plan::RowInitializer};
    /// # use phalanx_train::{Server, StepGradients, Supervisor};
    /// # let server = Server::local()?;
    /// # let table = TableSpec { name: "users".into(), dim: 2, initializer: RowInitializer::constant(0.5), optimizer: Sgd::new(0.1).into() };
    /// let mut supervisor = Supervisor::new(&server, Sgd::new(0.1));
    /// let users = supervisor.table(table)?;
    /// # let model = LinearConfig::new(2, 1).init(&phalanx_nn::default_device());
    /// let mut session = supervisor.prepare_or_wait_for_session(model)?;
    /// let reader = session.row_reader()?;
    /// session.step_with_gradients(&[], |_, _, _| {
    ///     let (unique, rows) = reader.read(users, &[7, 3, 7])?;
    ///     let gradients = vec![1.0; rows.values.len()].into();
    ///     Ok(StepGradients { looked_up: vec![(users, unique, gradients)], ..StepGradients::default() })
    /// })?;
    /// session.finish()?;
    /// assert_eq!(reader.read(users, &[3])?.1.values, [0.4, 0.4]);
    /// supervisor.stop(session)?;
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// When a server does not answer.
    pub fn row_reader(&mut self) -> Result<RowReader> {
        Ok(RowReader::new(self.rows()?))
    }

    /// Returns where models look up rows while they compute.
    pub(crate) fn rows(&mut self) -> Result<Arc<ServerRows>> {
        self.connection.rows(self.state.mode())
    }

    /// Changes the model of this session, not its values.
    pub(crate) fn change_model(&mut self, change: impl FnOnce(M) -> M) {
        self.local.change(change);
    }

    /// Replaces all rows of a table, whose ids count from 0; the optimizer's slots stay.
    pub(crate) fn replace_rows(&mut self, TableId(table): TableId, rows: &[f32]) -> Result<()> {
        let closed = self.closed_rounds();
        self.settle()?;
        let count = (rows.len() / self.layout().tables()[table].dim) as i64;
        self.connection.client.replace_rows(&mut self.connection.remote, table, 0..count, rows, closed)
    }

    fn closed_rounds(&self) -> u64 {
        match self.state.mode() {
            UpdateMode::Asynchronous => 0,
            UpdateMode::Synchronous { closed, .. } => closed,
        }
    }

    /// Begins to step by itself, asynchronously.
    pub(crate) fn step_directly(&mut self) {
        self.state = StepState::Direct;
    }

    /// Begins to step by itself in rounds of this many gradients.
    pub(crate) fn join_rounds(&mut self, gradients: u32) -> Result<()> {
        self.state = StepState::Rounds(Rounds::join(&self.connection.client, gradients)?);
        Ok(())
    }

    /// Begins to step by itself, never far ahead of the slowest trainer.
    pub(crate) fn join_clocks(&mut self, bound: BoundedStaleness) -> Result<()> {
        self.state = StepState::Bounded(Lead::join(&self.connection.client, bound, self.sent())?);
        Ok(())
    }

    /// Begins to step by itself with overlapping exchanges; where the servers are in this process, nothing is waited for and
    /// steps are direct.
    pub(crate) fn overlap_steps(&mut self) -> Result<()> {
        let inside = self.connection.client.is_inside();
        self.state = if inside { StepState::Direct } else { StepState::Overlapped(Overlap::start(&self.connection)?) };
        Ok(())
    }

    /// Leaves the steps and lost trainers to a coordinator, after the steps of its own are done.
    pub(crate) fn follow_coordinator(&mut self) -> Result<()> {
        if !self.is_coordinated() {
            self.finish()?;
            self.state = StepState::Coordinated(StepDirective::default());
        }
        Ok(())
    }

    /// A session of a coordinated job, before its first step.
    pub(crate) fn coordinated(mut self) -> Self {
        self.state = StepState::Coordinated(StepDirective::default());
        self
    }

    /// Returns whether a coordinator hands out the steps.
    pub(crate) fn is_coordinated(&self) -> bool {
        self.state.is_coordinated()
    }

    /// Sets how a coordinated session does its next step.
    pub(crate) fn set_directive(&mut self, directive: StepDirective) {
        self.state.direct(directive);
    }

    /// Returns whether the next step completes the update of a lost worker: it must then push something.
    pub(crate) fn acts_for_another(&self) -> bool {
        self.state.directive().on_behalf_of.is_some()
    }

    /// Returns the id of the gradients that have not been sent yet.
    pub(crate) fn pending_name(&self) -> Option<UpdateId> {
        self.pending.name()
    }

    /// Sends the gradients that have not been sent yet, as the coordinator's directive wants it.
    pub(crate) fn flush(&mut self) -> Result<()> {
        if let Some(pending) = self.pending.mark_sent() {
            let step = self.connection.push(pending, self.state.mode())?;
            self.clock.reached(step);
            self.acknowledged();
        }
        Ok(())
    }

    /// Returns how many updates this incarnation has sent as its own.
    pub(crate) fn sent(&self) -> u64 {
        self.pending.used()
    }

    /// For a chief that does not train itself: see [`Services::follow`](crate::services::Services::follow).
    pub(crate) fn follow(&self, steps: StepSource) -> ProgressWriter {
        self.services.follow(steps)
    }

    pub(crate) fn layout(&self) -> &Layout {
        self.connection.layout()
    }
}
