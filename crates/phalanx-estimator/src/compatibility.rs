//! Whether a checkpoint, of Phalanx or of TensorFlow's Estimator, is of an estimator's model.

use crate::{Estimator, Trainable};
use phalanx_base::{Code, Error, Result};
use phalanx_nn::{Parameter, ParameterRegistry, default_device};
use phalanx_optim::Optimizer;
use phalanx_ps::checkpoint::{Checkpoint, compare};
use phalanx_ps::{Layout, Partitioner, Placement, VariableSpec};

impl<M: Trainable> Estimator<M> {
    /// Refuses a checkpoint that training cannot continue from.
    pub(crate) fn check_fits(&self, checkpoint: &Checkpoint) -> Result<()> {
        let registry = ParameterRegistry::of(&self.model.module(&default_device())?)?;
        let variable = |(parameter, optimizer): (Parameter, Optimizer)| VariableSpec {
            name: parameter.name,
            shape: parameter.shape,
            optimizer,
            partitioner: Partitioner::default(),
        };
        let variables = self.planned(&registry)?.into_iter().map(variable).collect();
        let tables = self.model.tables().iter().map(|table| table.spec.clone()).collect();
        let layout = Layout::new(variables, tables, 1, Placement::default())?;
        compare(checkpoint.index(), &layout).check(checkpoint.name())?;
        self.check_tables(checkpoint).map(drop)
    }

    /// Refuses tables of TensorFlow that have another number of ids than the model's. Returns what else a user should know:
    /// learning rates that differ from the recorded ones, with which TensorFlow itself would continue.
    pub(crate) fn check_tables(&self, checkpoint: &Checkpoint) -> Result<Vec<String>> {
        for table in self.model.tables() {
            let (name, rows) = (&table.spec.name, table.rows);
            let Some(found) = checkpoint.dense_rows(name).filter(|&found| found != rows) else { continue };
            return Err(Error::new(Code::CheckpointMismatch, format!("table {name:?} has {found} rows, not {rows}"))
                .at(checkpoint.name())
                .because("the column has another number of buckets than the one that was trained")
                .help("give the column the buckets of the checkpoint, or use another model_dir"));
        }
        let mut notices = Vec::new();
        let tables = self.model.tables().iter().map(|table| Ok((&table.spec.name, table.spec.optimizer)));
        let variables = self.variables.iter().map(|name| Ok((name, self.model.optimizer(name)?)));
        for item in variables.chain(tables) {
            let (name, optimizer) = item?;
            let (own, recorded) = (optimizer.learning_rate(), checkpoint.recorded_rate(&optimizer, name)?);
            if let Some(recorded) = recorded.filter(|&recorded| recorded != own) {
                let notice = format!(
                    "{} continues with a learning rate of {own}, and {} was trained with {recorded}",
                    optimizer.name(),
                    checkpoint.name()
                );
                if !notices.contains(&notice) {
                    notices.push(notice);
                }
            }
        }
        Ok(notices)
    }
}
