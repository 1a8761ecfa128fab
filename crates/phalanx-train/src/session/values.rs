//! The values of a session: fetch, look up, replace, save.

use super::{Pace, RowValues, Session};
use crate::TableId;
use crate::checkpoint::Saved;
use crate::summary::SummaryWriter;
use bytes::Bytes;
use phalanx_base::{Code, Error, Result, Shape};
use phalanx_nn::burn::module::Module;
use phalanx_nn::{HostBuffer, Parameter, ParameterRegistry};
use phalanx_ps::client::UpdateMode;
use std::ops::Range;
use std::time::{Duration, Instant};

/// How long a save that the caller waits for may take.
const SAVE: Duration = Duration::from_secs(3600);

impl<M: Module> Session<M> {
    /// Saves a checkpoint and waits for it, where this task is the chief and has a run directory. Other trainers continue.
    ///
    /// # Errors
    /// When it cannot be saved.
    pub fn save(&mut self) -> Result<()> {
        self.services.save_within(SAVE)
    }

    /// Saves at the end of training; within seconds where this process was asked to stop.
    pub(crate) fn save_last(&mut self) -> Result<()> {
        self.services.summaries.stopped(self.global_step);
        self.services.save_within(match self.server.job().interrupted().map(|why| why.code()) {
            None => SAVE,
            Some(Code::Terminated) => Duration::from_secs(20),
            Some(_) => Duration::from_secs(4),
        })
    }

    /// In synchronous training: waits until this many trainers take part in rounds, so that the first one has a step of each.
    /// Continues without those that do not come before the formation deadline.
    pub(crate) fn wait_for_round(&self, trainers: usize) -> Result<()> {
        let (began, longest) = (Instant::now(), self.server.options().formation_deadline);
        let mut logged = Duration::ZERO;
        while self.is_synchronous() && !self.server.should_stop() && began.elapsed() < longest {
            let members = self.client.describe(0)?.members;
            if members >= trainers as u64 {
                break;
            }
            if began.elapsed() > logged + Duration::from_secs(5) {
                logged = began.elapsed();
                self.server.in_scope(|| tracing::info!("waiting for {trainers} trainers to step: {members} are here"));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// In synchronous training: sends the gradients of the last step now, and waits until their round is closed. Returns
    /// `false` when the job is over.
    pub(crate) fn complete_round(&mut self) -> Result<bool> {
        let Pace::Rounds(rounds) = &mut self.pace else { return Ok(true) };
        let Some(push) = self.pending.mark_sent() else { return Ok(true) };
        if !rounds.contribute(&self.server, &self.client, &mut self.remote, push, &mut self.unfinished)? {
            return Ok(false);
        }
        self.acknowledged();
        Ok(true)
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

    /// Saves the position in this task's input, at most 64 KiB, with the next step: it counts as soon as that step does, and
    /// checkpoints have both.
    pub fn save_position(&mut self, position: impl Into<Vec<u8>>) {
        self.position = position.into().into();
    }

    /// Returns the position in the input that this task saved with its last step before it was started again, or that the
    /// restored checkpoint has.
    #[must_use]
    pub fn restore_position(&self) -> Option<&[u8]> {
        self.restored_position.as_deref()
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
        let module = self.module.as_ref().ok_or_else(|| Error::new(Code::Internal, "the model is gone"))?;
        let values = self.registry.values(module)?;
        let variable = |(parameter, values): (&Parameter, HostBuffer)| {
            (parameter.name.clone(), parameter.shape.clone(), values.into())
        };
        let mut all: Vec<_> = self.registry.parameters().iter().zip(values).map(variable).collect();
        if self.moving_averages {
            all.extend(self.registry.states().iter().zip(self.registry.state_values(module)?).map(variable));
        }
        Ok(all)
    }

    /// Reads the numbers `elements` of the variable with this index from the servers, and nothing else.
    pub(crate) fn read(&mut self, variable: usize, elements: Range<usize>) -> Result<Vec<f32>> {
        let mode = self.mode();
        self.client.read(&mut self.remote, variable, elements, mode)
    }

    /// Reads the rows of these ids from the servers, one for each id, and nothing else.
    pub(crate) fn read_rows(&mut self, table: TableId, ids: &[i64]) -> Result<Vec<f32>> {
        let mode = self.mode();
        let sets = self.row_sets(&[(table, ids)])?;
        let rows = self.client.read_rows(&mut self.remote, &sets, mode)?;
        let row = |of: &RowValues, at: u32| of.values[at as usize * of.dim..][..of.dim].to_vec();
        let of = self.row_values(&sets, rows);
        Ok(of.iter().flat_map(|of| of.positions.iter().flat_map(move |&at| row(of, at))).collect())
    }

    /// Sets the learning rate of the supervisor's optimizer for this trainer's steps from now on; `None` goes back to the
    /// rate or schedule that the optimizer was made with. Tables, and variables with an optimizer of their own
    /// ([`Supervisor::optimizer_of`](crate::Supervisor::optimizer_of)), keep their rates, as variables of another optimizer
    /// object do in Keras.
    pub fn set_learning_rate(&mut self, rate: impl Into<Option<f32>>) {
        self.learning_rate = rate.into();
    }

    /// Replaces the values of all variables on the servers by those of `module`; the optimizers' slots stay. Other trainers
    /// continue, and compute their next step on the new values.
    ///
    /// # Errors
    /// When the module is not the session's, or a server does not answer.
    pub fn replace(&mut self, module: &M) -> Result<()> {
        let registry = ParameterRegistry::of(module)?;
        let mut values = registry.values(module)?;
        if self.moving_averages {
            values.extend(registry.state_values(module)?);
        }
        let values = to_wire(values);
        let closed = match self.mode() {
            UpdateMode::Asynchronous => 0,
            UpdateMode::Synchronous { closed, .. } => closed,
        };
        self.settle()?;
        self.client.replace(&mut self.remote, &values, closed)?;
        self.refresh()
    }

    fn mode(&self) -> UpdateMode {
        match &self.pace {
            Pace::Rounds(rounds) => rounds.mode(),
            Pace::Free | Pace::Bounded(_) => self.directive.mode(),
        }
    }

    /// Fetches the newest values into the model.
    ///
    /// # Errors
    /// When a server does not answer.
    pub fn refresh(&mut self) -> Result<()> {
        self.look_up(&[]).map(drop)
    }

    /// Fetches the newest values into the model, and returns the rows of these ids: for each table used, the ids. Rows that do not exist yet are created.
    ///
    /// # Errors
    /// When there is no such table, or a server does not answer.
    pub fn look_up(&mut self, ids: &[(TableId, &[i64])]) -> Result<Vec<RowValues>> {
        self.settle()?;
        let sets = self.row_sets(ids)?;
        let mode = self.mode();
        let pulled = self.client.exchange(&mut self.remote, None, &sets, mode);
        // Where the job has failed, that is the reason, not the connection that was lost with it.
        let pulled = pulled.map_err(|error| {
            let job = self.server.job();
            job.interrupted().or_else(|| job.failure()).unwrap_or(error)
        })?;
        self.global_step = self.global_step.max(pulled.global_step);
        self.module = Some(self.load(pulled.dense)?);
        Ok(self.row_values(&sets, pulled.rows))
    }
}

/// Converts values to what the client sends, without a copy.
pub(crate) fn to_wire(values: Vec<HostBuffer>) -> Vec<Bytes> {
    values.into_iter().map(Bytes::from_owner).collect()
}
