//! A trial run that leaves nothing behind.

use crate::run::{newest, servers};
use crate::{DataPart, Job};
use phalanx_base::{Code, Context, Error, Result};
use phalanx_estimator::{Canned, Estimator, RunConfig, ServingInput, TrainSteps};
use phalanx_nn::with_threads;
use phalanx_storage::Dir;
use phalanx_train::{ClusterResolver, TfConfigClusterResolver, logging};
use std::path::Path;

/// The largest accepted difference between the predictions of a checkpoint and of its export.
const CLOSE: f32 = 1e-5;

impl Job {
    /// Reads data, trains one step, evaluates one batch, exports into a temporary folder and predicts from the export.
    /// Returns one line per action.
    ///
    /// # Errors
    /// If any action fails. Errors that the file causes point at their cause.
    pub fn dry_run(&self) -> Result<Vec<String>> {
        with_threads(self.threads, || logging::silence(|| self.trial()?.one_of_everything()))
            .map_err(|error| self.explain(error))
    }

    fn one_of_everything(&self) -> Result<Vec<String>> {
        let mut done = Vec::new();
        let task = TfConfigClusterResolver.resolve()?;
        done.push(match task.task() {
            Some(task) => format!("this task would be {task}; a dry run stays in this process"),
            None => "this process would be the whole job".to_owned(),
        });
        let model = self.check()?;
        let (train, eval) = (self.inputs.train_files(), self.inputs.eval_files());
        done.push(format!("data    {} and {} can be read", train.join(", "), eval.join(", ")));
        let summary = model.summary(servers(&task))?.to_string();
        done.push(format!("model   {}", summary.replace('\n', "\n        ")));
        let found = self.statistics(DataPart::Train, Some(self.first_rows()))?;
        let all = if found.complete { "all" } else { "the first" };
        let table = found.table().trim_end().replace('\n', "\n          ");
        done.push(format!("stats   {all} {} rows of the training files\n          {table}", found.rows));
        done.extend(found.warnings().iter().map(|warning| format!("warning {warning}")));
        if let Some(location) = self.model_dir.as_ref().map(|dir| dir.value.as_str()).or(task.model_dir()) {
            done.push(self.check_location(location)?);
        }
        let folder = tempfile::tempdir().context(Code::StorageWrite, "no directory for temporary files")?;
        let config =
            self.configure(RunConfig::new(), &folder.path().join("run").to_string_lossy()).log_step_count_steps(None);
        let estimator = Estimator::new(&self.model, config)?;
        let made = estimator.train(|cx| self.inputs.training(cx), TrainSteps::More(1))?;
        let loss = made.loss.map_or_else(|| "no loss".to_owned(), |loss| format!("loss {loss}"));
        done.push(format!("train   1 step, {loss}"));
        let found = estimator.evaluate(|_| self.inputs.evaluation(&self.eval), 1)?;
        done.push(format!("eval    1 batch, {found}"));
        self.try_exports(&estimator, folder.path(), &mut done)?;
        folder.close().context(Code::StorageWrite, "the temporary folder cannot be removed")?;
        Ok(done)
    }

    /// Exports as the job would, and compares the predictions of the checkpoint and of the export for one batch.
    fn try_exports(&self, estimator: &Estimator<Canned>, folder: &Path, done: &mut Vec<String>) -> Result<()> {
        let wanted: Vec<(String, ServingInput)> =
            self.exports.iter().map(|export| (export.name.clone(), export.input)).collect();
        let held = self.inputs.evaluation(&self.eval).iter()?.next().transpose()?;
        let assets = self.assets_extra()?;
        let tried = if wanted.is_empty() { vec![("trial".to_owned(), ServingInput::Examples)] } else { wanted };
        for (name, input) in tried {
            let made =
                estimator.export_saved_model_with(folder.join("export").join(&name), input, held.as_ref(), &assets)?;
            let exported = estimator.open_export(&made)?;
            let batch = |_| self.inputs.evaluation(&self.eval).take(1);
            let first = |mut all: phalanx_estimator::Predictions<Canned>| all.next().transpose();
            let pair = (first(estimator.predict(batch)?)?, first(exported.predict(batch)?)?);
            let (Some(ours), Some(theirs)) = pair else { continue };
            let key = if ours.names().iter().any(|name| **name == *"logits") { "logits" } else { "predictions" };
            let difference =
                ours.f32(key)?.iter().zip(theirs.f32(key)?).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            if difference > CLOSE || difference.is_nan() {
                return Err(Error::new(
                    Code::Internal,
                    "the predictions of the export differ from those of the checkpoint",
                )
                .because(format!("they differ by {difference}")));
            }
            done.push(format!(
                "export  {name}: {} rows with the same predictions, largest difference {difference:e}",
                ours.rows()
            ));
        }
        Ok(())
    }

    /// Checks, without creating it, that the run directory can be used.
    fn check_location(&self, location: &str) -> Result<String> {
        let dir = Dir::open(location)?;
        let newest = newest(&dir).map_err(|error| self.unusable(location, error))?;
        self.check_resume(newest.as_deref(), location)?;
        if !location.contains("://") {
            let there = Path::new(location).ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
            tempfile::tempfile_in(there)
                .map_err(|error| self.unusable(location, format!("{}: {error}", there.display())))?;
        }
        Ok(match newest {
            Some(name) => {
                // Only reads: this detects a checkpoint of another model.
                let config = RunConfig::new().model_dir(location).tf_random_seed(self.seed);
                Estimator::new(&self.model, config)?.predict(|_| self.inputs.evaluation(&self.eval))?;
                format!("resume  would resume from {name} of {location}, which matches this model")
            }
            None => format!("resume  would start a new run in {location}"),
        })
    }
}
