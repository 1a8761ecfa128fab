//! A session's values as a whole: fetched, looked at, saved.

use super::{Rounds, Session};
use crate::services::Checkpoint;
use phalanx_base::{Code, Error, Result};
use phalanx_nn::burn::module::Module;
use phalanx_ps::client::Mode;

impl<M: Module> Session<M> {
    /// Saves now, if there is a saver.
    ///
    /// # Errors
    /// When the values cannot be fetched or written.
    pub fn save(&mut self) -> Result<()> {
        if self.services.saver.is_none() {
            return Ok(());
        }
        let checkpoint = self.checkpoint()?;
        self.services.saver.as_mut().map_or(Ok(()), |(_, saver)| saver.save(&checkpoint))
    }

    /// All variables as the servers have them now.
    ///
    /// # Errors
    /// When a server does not answer.
    pub fn checkpoint(&mut self) -> Result<Checkpoint> {
        self.refresh()?;
        let module = self.module.as_ref().ok_or_else(|| Error::new(Code::Internal, "the model is gone"))?;
        let values = self.book.values(module)?;
        let variables = self.book.parameters().iter().zip(values).map(|(parameter, bytes)| {
            let mut numbers = vec![0.0; parameter.shape.elements()];
            phalanx_base::read_f32s(&bytes, &mut numbers);
            (parameter.name.clone(), parameter.shape.clone(), numbers)
        });
        Ok(Checkpoint { global_step: self.global_step, variables: variables.collect() })
    }

    /// Fetches the newest values into the model.
    ///
    /// # Errors
    /// When a server does not answer.
    pub fn refresh(&mut self) -> Result<()> {
        let mode = self.rounds.as_ref().map_or(Mode::Asynchronous, Rounds::mode);
        let pulled = self.client.exchange(&mut self.remote, None, &[], mode);
        // Where the job has failed, that is the reason, and not the connection that went with it.
        let pulled = pulled.map_err(|error| {
            let job = self.server.job();
            job.interrupted().or_else(|| job.failure()).unwrap_or(error)
        })?;
        self.global_step = self.global_step.max(pulled.global_step);
        self.module = Some(self.load(pulled.dense)?);
        Ok(())
    }
}
