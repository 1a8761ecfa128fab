//! A model whose variables are on servers, as callbacks see it.

use crate::fit::fitted::Fitted;
use crate::fit::{Compiled, Weight};
use crate::{Coordinator, Strategy};
use phalanx_base::{Code, Error, Result};
use phalanx_nn::Network;

/// The chief's model, and the way to the servers. Weights are fetched when somebody asks for them, and sent when somebody
/// replaces them; the learning rate goes with every step that is scheduled.
pub(super) struct OnServers<'a, M> {
    pub(super) compiled: &'a mut Compiled<M>,
    pub(super) coordinator: &'a mut Coordinator<M>,
    /// Whether nothing was trained since the values were fetched.
    pub(super) fresh: &'a mut bool,
}

impl<M: Network> OnServers<'_, M> {
    /// Fetches the newest values, if there may be newer ones.
    pub(super) fn fetch(&mut self) -> Result<()> {
        if !std::mem::replace(self.fresh, true) {
            let module = self.coordinator.newest_model()?.clone();
            self.compiled.replicated().change(|_| Ok(module))?;
        }
        Ok(())
    }

    /// Sends the values to the servers.
    fn send(&mut self) -> Result<()> {
        // Also finds out how far the servers are.
        self.coordinator.newest_model()?;
        self.coordinator.session_mut()?.replace(self.compiled.module())
    }
}

impl<M: Network> Fitted for OnServers<'_, M> {
    fn strategy(&self) -> &Strategy {
        self.compiled.strategy()
    }

    fn iterations(&self) -> u64 {
        self.compiled.iterations()
    }

    fn learning_rate(&self) -> f32 {
        Fitted::learning_rate(self.compiled)
    }

    fn set_learning_rate(&mut self, rate: f32) -> Result<()> {
        self.compiled.set_learning_rate(rate)
    }

    fn weights(&mut self) -> Result<Vec<Weight>> {
        self.fetch()?;
        Compiled::weights(self.compiled)
    }

    fn states(&mut self) -> Result<Vec<Weight>> {
        self.compiled.states()
    }

    fn set_weights(&mut self, weights: Vec<Weight>) -> Result<()> {
        self.fetch()?;
        Compiled::set_weights(self.compiled, weights)?;
        self.send()
    }

    fn save_weights(&mut self, location: &str) -> Result<()> {
        self.fetch()?;
        Compiled::save_weights(self.compiled, location)
    }

    fn load_weights(&mut self, location: &str) -> Result<()> {
        self.fetch()?;
        Compiled::load_weights(self.compiled, location)?;
        self.send()
    }

    fn slots(&mut self) -> Vec<Weight> {
        Vec::new()
    }

    fn set_slots(&mut self, _: Vec<Weight>, _: u64) -> Result<()> {
        self.check_backup()
    }

    fn check_backup(&self) -> Result<()> {
        Err(Error::new(Code::BadSetting, "BackupAndRestore has nothing to do under a ParameterServerStrategy")
            .because("the servers save everything that is on them, and a job that is started again goes on from there")
            .help("leave the callback out, and give the Supervisor a run directory: logdir(…)"))
    }
}
