//! The permutation importance of a trained job's inputs.

use crate::Job;
use crate::copy::TrainedJob;
use phalanx_base::{Code, Error, Result};
use phalanx_data::{Batch, Files};
use phalanx_estimator::{Importances, Permutation};
use phalanx_nn::with_threads;

/// The number of rows that are read at once.
const READ: usize = 1024;

impl Job {
    /// Measures a metric on the first `most` rows of `input`, or of the job's own evaluation files, as they are and with each
    /// input of the model permuted. Returns whether there were more rows, too.
    ///
    /// # Errors
    /// If there is no checkpoint, or data and model do not match.
    pub fn importances(
        &self,
        trained: &TrainedJob,
        input: Option<&str>,
        most: usize,
        settings: &Permutation,
    ) -> Result<(Importances, bool)> {
        self.as_trained(trained)?.importances_adapted(trained, input, most, settings)
    }

    fn importances_adapted(
        &self,
        trained: &TrainedJob,
        input: Option<&str>,
        most: usize,
        settings: &Permutation,
    ) -> Result<(Importances, bool)> {
        let work = || {
            let files = input.map(|input| vec![input.to_owned()]);
            Files::from(files.clone().unwrap_or_else(|| self.inputs.eval_files())).list()?;
            let (rows, more) = self.labelled_rows(files, most)?;
            let columns: Vec<String> = self.inputs.features.iter().map(|spec| spec.name.clone()).collect();
            if columns.is_empty() {
                return Err(Error::new(Code::JobValue, "the model reads no inputs")
                    .because("a baseline only learns how often each label occurs")
                    .help("explain a model that has columns"));
            }
            let found = match trained {
                TrainedJob::ModelDir(folder) => {
                    self.must_have_checkpoint(folder)?;
                    self.estimator(folder)?.permutation_importance(&rows, &columns, settings)?
                }
                TrainedJob::Export(folder) => {
                    self.bare_estimator()?.open_export(folder)?.permutation_importance(&rows, &columns, settings)?
                }
            };
            Ok((found, more))
        };
        with_threads(self.threads, work).map_err(|error| self.explain_with(error, input))
    }

    /// The first rows to evaluate on with their labels, and whether there are more.
    fn labelled_rows(&self, files: Option<Vec<String>>, most: usize) -> Result<(Batch, bool)> {
        let (mut parts, mut rows) = (Vec::new(), 0);
        for batch in self.inputs.evaluation_rows(files).batch(READ).iter()? {
            let batch = batch?;
            if rows + batch.rows() > most {
                parts.push(batch.slice(0..most - rows));
                return Ok((Batch::concat(&parts)?, true));
            }
            rows += batch.rows();
            parts.push(batch);
        }
        Ok((Batch::concat(&parts)?, false))
    }
}
