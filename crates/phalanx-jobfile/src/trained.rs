//! Evaluation, prediction and export with a trained job.

use crate::Job;
use crate::copy::TrainedJob;
use crate::input::RowKind;
use phalanx_base::{Code, Error, Result};
use phalanx_data::{Batch, Column, DType, Files};
use phalanx_estimator::{
    Canned, Converted, Estimator, EstimatorNames, Evaluation, Predictions, RunConfig, ServingInput,
};
use phalanx_nn::with_threads;
use phalanx_storage::Dir;
use std::path::{Path, PathBuf};

/// How rows are predicted.
#[derive(Clone, Debug, Default)]
pub struct PredictOptions {
    /// The column of the input that is carried through.
    pub id: Option<String>,
    /// Whether the rows of a CSV file without a header lack the label's field.
    pub no_label: bool,
}

impl Job {
    pub(crate) fn estimator(&self, model_dir: &Path) -> Result<Estimator<Canned>> {
        let config = RunConfig::new().model_dir(model_dir.to_string_lossy()).tf_random_seed(self.seed);
        Estimator::new(&self.model, config)
    }

    /// An estimator for exports; its run directory is required but not used.
    pub(crate) fn bare_estimator(&self) -> Result<Estimator<Canned>> {
        self.estimator(&std::env::temp_dir())
    }

    /// Evaluates the newest checkpoint of a run directory, or an export, on `input` or on the job's own files.
    ///
    /// # Errors
    /// If there is no checkpoint, or data and model do not match.
    pub fn evaluate(&self, trained: &TrainedJob, input: Option<&str>) -> Result<Evaluation> {
        self.as_trained(trained)?.evaluate_adapted(trained, input)
    }

    fn evaluate_adapted(&self, trained: &TrainedJob, input: Option<&str>) -> Result<Evaluation> {
        let work = || {
            let files = input.map(|input| vec![input.to_owned()]);
            Files::from(files.clone().unwrap_or_else(|| self.inputs.eval_files())).list()?;
            match trained {
                TrainedJob::ModelDir(folder) => {
                    self.must_have_checkpoint(folder)?;
                    self.evaluate_newest(&self.estimator(folder)?, files)
                }
                TrainedJob::Export(folder) => {
                    let exported = self.bare_estimator()?.open_export(folder)?;
                    exported.evaluate(|_| self.inputs.evaluation_of(files.clone()), self.eval.steps)
                }
            }
        };
        let done = with_threads(self.threads, work);
        self.log_skipped();
        done.map_err(|error| {
            let files = input.map_or_else(|| self.inputs.eval_files(), |input| vec![input.to_owned()]);
            self.explain_with(self.locate(error, &[files], RowKind::Labelled), input)
        })
    }

    /// Returns a line for each kind of row that was skipped or changed since the job was read.
    #[must_use]
    pub fn skipped_rows(&self) -> Vec<String> {
        self.inputs.skipped()
    }

    pub(crate) fn log_skipped(&self) {
        for line in self.skipped_rows() {
            tracing::warn!("{line}");
        }
    }

    /// Suggests `--no-label` for a headerless CSV file whose rows have one field too few.
    fn suggest_no_label(&self, error: Error, no_label: bool) -> Error {
        let Some(names) = &self.inputs.data.names else { return error };
        let (names, label) = (names.value.len(), &self.inputs.data.label.value);
        let lacks_one = error.what() == format!("a row has {} fields, not {names}", names.saturating_sub(1));
        if no_label || !lacks_one {
            return error;
        }
        error.help(format!("if only the label {label:?} is missing, add --no-label; otherwise correct the file"))
    }

    /// Predicts every row of a file and passes the predictions to `each`, in batches under TensorFlow's names, which begin
    /// with the id column if one is carried through. With `no_label`, the rows of a CSV
    /// file without a header lack the label's field.
    ///
    /// # Errors
    /// If there is no checkpoint, or data and model do not match.
    pub fn predict(
        &self,
        trained: &TrainedJob,
        input: &str,
        options: &PredictOptions,
        each: impl FnMut(&Batch) -> Result<()> + Send,
    ) -> Result<()> {
        self.as_trained(trained)?.predict_adapted(trained, input, options, each)
    }

    fn predict_adapted(
        &self,
        trained: &TrainedJob,
        input: &str,
        options: &PredictOptions,
        mut each: impl FnMut(&Batch) -> Result<()> + Send,
    ) -> Result<()> {
        let mut work = || {
            let files = Files::from(input).list()?;
            let id = options.id.as_deref().map(|id| self.inputs.id_spec(id, &files)).transpose()?;
            let input = |_| self.inputs.prediction(files.clone(), id.as_ref(), options.no_label);
            let predictions: Predictions<Canned> = match trained {
                TrainedJob::ModelDir(folder) => {
                    self.must_have_checkpoint(folder)?;
                    self.estimator(folder)?.predict(input)?
                }
                TrainedJob::Export(folder) => self.bare_estimator()?.open_export(folder)?.predict(input)?,
            };
            for batch in predictions.carrying(id.iter().map(|id| id.name.as_str())) {
                let batch = batch?;
                id.as_ref().map_or(Ok(()), |id| check_id(&id.name, batch.column(&id.name)?))?;
                each(&batch)?;
            }
            Ok(())
        };
        let done = with_threads(self.threads, &mut work);
        self.log_skipped();
        done.map_err(|error| {
            let rows = RowKind::ToPredict { no_label: options.no_label };
            let error = self.locate(error, &[vec![input.to_owned()]], rows);
            self.explain_with(self.suggest_no_label(error, options.no_label), Some(input))
        })
    }

    /// Exports the newest checkpoint of a run directory as a SavedModel into a new folder of `base`. Returns the folder, and
    /// whether its predictions were compared with those of the checkpoint.
    ///
    /// # Errors
    /// If there is no checkpoint, or the export cannot be written.
    pub fn export(&self, model_dir: &Path, base: &Path, input: ServingInput) -> Result<(PathBuf, bool)> {
        self.as_trained(&TrainedJob::ModelDir(model_dir.to_owned()))?.export_adapted(model_dir, base, input)
    }

    fn export_adapted(&self, model_dir: &Path, base: &Path, input: ServingInput) -> Result<(PathBuf, bool)> {
        let work = || {
            self.must_have_checkpoint(model_dir)?;
            let estimator = self.estimator(model_dir)?;
            // A model can be exported without its data.
            let held = self.inputs.evaluation(&self.eval).iter().ok().and_then(|mut batches| batches.next()?.ok());
            let folder = estimator.export_saved_model_with(base, input, held.as_ref(), &self.assets_extra()?)?;
            Ok((folder, held.is_some()))
        };
        with_threads(self.threads, work).map_err(|error| self.explain(error))
    }

    /// Writes the newest checkpoint of a run directory into `out`, for TensorFlow's Estimator.
    ///
    /// # Errors
    /// If there is no checkpoint, TensorFlow has no such model, or `out` is in use or cannot be written.
    pub fn convert(&self, model_dir: &Path, names: EstimatorNames, out: &Path) -> Result<Converted> {
        self.must_have_checkpoint(model_dir)?;
        self.estimator(model_dir)?.convert_checkpoint(names, &out.to_string_lossy())
    }

    pub(crate) fn must_have_checkpoint(&self, folder: &Path) -> Result<()> {
        if crate::run::newest(&Dir::local(folder))?.is_some() {
            return Ok(());
        }
        Err(Error::new(Code::CheckpointMissing, format!("{} has no checkpoint", folder.display()))
            .because("no training of it has saved one yet")
            .help("train it first: phalanx train JOB.toml --model-dir DIR"))
    }

    /// Explains an error, unless files given on the command line caused it.
    pub(crate) fn explain_with(&self, error: Error, input: Option<&str>) -> Error {
        let is_theirs = match error.code() {
            Code::DataMissing | Code::DataFormat | Code::DataRow | Code::CheckpointMissing => true,
            Code::DataColumn => self.named_in(&error).is_none(),
            _ => false,
        };
        if input.is_some() && is_theirs { error } else { self.explain(error) }
    }
}

/// Checks that ids are carried through unchanged: a float32 would round large numbers.
fn check_id(name: &str, ids: &Column) -> Result<()> {
    let why = match ids.dtype() {
        _ if ids.is_ragged() || ids.width() != 1 => "its rows have several values",
        DType::F32 => "it is read as float32, which rounds large numbers",
        DType::I64 | DType::U8 | DType::Bytes => return Ok(()),
    };
    let error = Error::new(Code::DataColumn, format!("the column {name:?} cannot be carried through as an id"));
    Err(error.because(why).help("name a column of texts or integers with --id"))
}
