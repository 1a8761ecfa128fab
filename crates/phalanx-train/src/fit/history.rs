//! The logs of a training.

use super::Logs;
use super::logs::no_such;
use phalanx_base::Result;
use serde::{Deserialize, Serialize};

/// The logs of every epoch that was trained.
///
/// ```
/// use phalanx_train::fit::{History, Logs};
/// let mut history = History::default();
/// history.push(0, [("loss", 0.5)].into_iter().collect());
/// history.push(1, [("loss", 0.3)].into_iter().collect());
/// assert_eq!((history.epochs(), history.series("loss")?), (&[0, 1][..], vec![0.5, 0.3]));
/// assert_eq!(history.last("loss")?, 0.3);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    epochs: Vec<usize>,
    logs: Vec<Logs>,
}

impl History {
    /// Adds an epoch, counted from 0.
    pub fn push(&mut self, epoch: usize, logs: Logs) {
        self.epochs.push(epoch);
        self.logs.push(logs);
    }

    /// Returns the epochs, counted from 0.
    #[must_use]
    pub fn epochs(&self) -> &[usize] {
        &self.epochs
    }

    /// Returns the logs of each epoch.
    #[must_use]
    pub fn logs(&self) -> &[Logs] {
        &self.logs
    }

    /// Returns one value for every epoch that has it.
    ///
    /// # Errors
    /// Fails if no epoch has it.
    pub fn series(&self, name: &str) -> Result<Vec<f64>> {
        let found: Vec<f64> = self.logs.iter().filter_map(|logs| logs.get(name)).collect();
        if found.is_empty() {
            let known = self.logs.first().map(Logs::pairs).unwrap_or_default();
            return Err(no_such(name, known.iter().map(|(name, _)| *name)));
        }
        Ok(found)
    }

    /// Returns the value in the last epoch that has it.
    ///
    /// # Errors
    /// Fails if no epoch has it.
    pub fn last(&self, name: &str) -> Result<f64> {
        Ok(self.series(name)?.last().copied().unwrap_or(f64::NAN))
    }
}
