//! What can be done with a trained job: evaluate, predict, export.

use crate::Job;
use crate::copy::Place;
use phalanx_base::{Code, Error, Result};
use phalanx_data::{Batch, Files};
use phalanx_estimator::{Canned, Estimator, Evaluation, Predictions, RunConfig, ServingInput};
use phalanx_nn::with_threads;
use phalanx_storage::Dir;
use std::path::{Path, PathBuf};

impl Job {
    fn estimator(&self, model_dir: &Path) -> Result<Estimator<Canned>> {
        let config = RunConfig::new().model_dir(model_dir.to_string_lossy()).tf_random_seed(self.seed).say(|_| {});
        Estimator::new(&self.model, config)
    }

    /// An estimator for exports, which has a run directory only to have one.
    fn bare_estimator(&self) -> Result<Estimator<Canned>> {
        self.estimator(&std::env::temp_dir())
    }

    /// Evaluates the newest checkpoint of a run directory, on the job's files or on others.
    ///
    /// # Errors
    /// When there is no checkpoint, or data and model do not fit.
    pub fn evaluate(&self, place: &Place, input: Option<&str>) -> Result<Evaluation> {
        let work = || {
            let files = input.map(|input| vec![input.to_owned()]);
            Files::from(files.clone().unwrap_or_else(|| self.inputs.eval_files())).list()?;
            match place {
                Place::ModelDir(folder) => {
                    self.must_have_checkpoint(folder)?;
                    self.evaluate_newest(&self.estimator(folder)?, files)
                }
                Place::Export(folder) => {
                    let files = files.unwrap_or_else(|| self.inputs.eval_files());
                    let exported = self.bare_estimator()?.open_export(folder)?;
                    exported.evaluate(|_| self.inputs.evaluation_of(files.clone()), self.eval.steps)
                }
            }
        };
        with_threads(self.threads, work)?.map_err(|error| self.explain_with(error, input))
    }

    /// Predicts every row of a file, in batches under TensorFlow's names.
    ///
    /// # Errors
    /// When there is no checkpoint, or data and model do not fit.
    pub fn predict(&self, place: &Place, input: &str, mut each: impl FnMut(&Batch) -> Result<()> + Send) -> Result<()> {
        let mut work = || {
            let files = Files::from(input).list()?;
            let input = |_| self.inputs.prediction(files.clone());
            let predictions: Predictions<Canned> = match place {
                Place::ModelDir(folder) => {
                    self.must_have_checkpoint(folder)?;
                    self.estimator(folder)?.predict(input)?
                }
                Place::Export(folder) => self.bare_estimator()?.open_export(folder)?.predict(input)?,
            };
            for batch in predictions {
                each(&batch?)?;
            }
            Ok(())
        };
        with_threads(self.threads, &mut work)?.map_err(|error| self.explain_with(error, Some(input)))
    }

    /// Writes the newest checkpoint of a run directory as a SavedModel into a new folder of `base`; answers the folder,
    /// and whether its predictions were held against the checkpoint's.
    ///
    /// # Errors
    /// When there is no checkpoint, or the export cannot be written.
    pub fn export(&self, model_dir: &Path, base: &Path, input: ServingInput) -> Result<(PathBuf, bool)> {
        let work = || {
            self.must_have_checkpoint(model_dir)?;
            let estimator = self.estimator(model_dir)?;
            // Without the data it was trained with, a model can still be exported.
            let held = self.inputs.evaluation().iter().ok().and_then(|mut batches| batches.next()?.ok());
            let folder = estimator.export_saved_model_with(base, input, held.as_ref(), &self.assets_extra()?)?;
            Ok((folder, held.is_some()))
        };
        with_threads(self.threads, work)?.map_err(|error| self.explain(error))
    }

    fn must_have_checkpoint(&self, folder: &Path) -> Result<()> {
        if crate::run::newest(&Dir::local(folder))?.is_some() {
            return Ok(());
        }
        Err(Error::new(Code::CheckpointMissing, format!("{} has no checkpoint", folder.display()))
            .because("no training of it has saved one yet")
            .help("train it first: phalanx train JOB.toml --model-dir DIR"))
    }

    /// What is wrong with files of the command line is not the file's fault.
    fn explain_with(&self, error: Error, input: Option<&str>) -> Error {
        let is_theirs = match error.code() {
            Code::DataMissing | Code::DataFormat | Code::DataRow | Code::CheckpointMissing => true,
            Code::DataColumn => self.named_in(&error).is_none(),
            _ => false,
        };
        if input.is_some() && is_theirs { error } else { self.explain(error) }
    }
}
