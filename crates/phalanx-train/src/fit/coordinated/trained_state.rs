//! The trained state when variables are on parameter servers.

use crate::fit::trained_state::TrainedState;
use crate::fit::{Compiled, Weight};
use crate::session::NormRequest;
use crate::{Coordinator, Strategy, SummaryWriter, TableId};
use phalanx_base::{Code, Error, Result};
use phalanx_nn::Network;
use std::sync::Arc;

/// The chief's model and its coordinator. Weights are fetched from the servers on read and sent on write; the learning
/// rate travels with every scheduled step.
pub(super) struct TrainedOnServers<'a, M: Network> {
    pub(super) compiled: &'a mut Compiled<M>,
    pub(super) coordinator: &'a mut Coordinator<M>,
    /// Whether the chief's values are the newest.
    pub(super) fresh: &'a mut bool,
}

impl<M: Network> TrainedOnServers<'_, M> {
    /// Fetches the newest values unless the chief has them.
    pub(super) fn fetch(&mut self) -> Result<()> {
        if !std::mem::replace(self.fresh, true) {
            let module = self.coordinator.newest_model()?.clone();
            if !self.compiled.model.tables.is_empty() {
                let rows = self.coordinator.session_mut()?.rows()?;
                self.compiled.model.tables.connect(&rows);
            }
            self.compiled.replicated().change(|_| Ok(module))?;
        }
        Ok(())
    }

    /// Sends the values to the servers.
    fn send(&mut self) -> Result<()> {
        // Also updates the session's global step.
        self.coordinator.newest_model()?;
        let session = self.coordinator.session_mut()?;
        session.replace(self.compiled.module())?;
        self.compiled.model.tables.held().try_for_each(|(table, rows)| session.replace_rows(TableId(table), rows))
    }
}

impl<M: Network> TrainedState for TrainedOnServers<'_, M> {
    fn strategy(&self) -> &Strategy {
        self.compiled.strategy()
    }

    fn iterations(&self) -> u64 {
        self.compiled.iterations()
    }

    fn learning_rate(&self) -> f32 {
        TrainedState::learning_rate(self.compiled)
    }

    fn has_schedule(&self) -> bool {
        TrainedState::has_schedule(self.compiled)
    }

    fn set_learning_rate(&mut self, rate: f32) -> Result<()> {
        self.compiled.set_learning_rate(rate)
    }

    fn norm_request(&mut self) -> Option<&mut NormRequest> {
        self.compiled.model.norm_request()
    }

    fn summaries(&mut self) -> Result<Option<Arc<SummaryWriter>>> {
        Ok(self.coordinator.session_mut()?.shared_summaries())
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
        Err(Error::new(Code::BadSetting, "BackupAndRestore does not work with parameter servers")
            .because("the servers save checkpoints themselves, and a restarted job continues from the newest")
            .help("remove the callback, and set a run directory: ParameterServerOptions::model_dir"))
    }
}
