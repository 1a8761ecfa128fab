//! The evaluator: evaluates the checkpoints of the run directory until training has ended.

use crate::run_config::CheckpointInterval;
use crate::trained::{TrainedModel, newest_first};
use crate::{Estimator, EvalSpec, Evaluation, Trainable};
use phalanx_base::Result;
use phalanx_ps::checkpoint::Checkpoint;
use phalanx_train::checkpoint::is_damage;
use phalanx_train::job_state::{HeartbeatReader, Observation};
use phalanx_train::logging;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How often the run directory is polled.
const LOOK: Duration = Duration::from_millis(500);

/// How long a chief may be silent, and how long the final state of an earlier run is trusted.
const PATIENCE: Duration = Duration::from_secs(60);

/// Evaluates checkpoints and runs exporters.
pub(crate) struct Evaluator<'a, M: Trainable> {
    estimator: &'a Estimator<M>,
    spec: &'a EvalSpec,
    started: Option<Instant>,
    /// Whether exporters have run for the end of training.
    ended: bool,
    /// The last evaluation.
    pub(crate) last: Option<Evaluation>,
    /// The names of damaged checkpoints; each is logged once.
    damaged: BTreeSet<String>,
}

impl<'a, M: Trainable> Evaluator<'a, M> {
    pub(crate) fn new(estimator: &'a Estimator<M>, spec: &'a EvalSpec) -> Self {
        logging::init();
        Self { estimator, spec, started: None, ended: false, last: None, damaged: BTreeSet::new() }
    }

    /// Returns whether a training that has this age may be evaluated in its own process. The first checkpoints of the default
    /// interval come so early that evaluating them would only delay the training.
    pub(crate) fn may_begin(&self, age: Duration) -> bool {
        self.estimator.config.checkpoint_interval != CheckpointInterval::Growing || age >= self.spec.start_delay
    }

    /// Returns whether enough time has passed since the last evaluation.
    pub(crate) fn is_due(&self) -> bool {
        self.started.is_none_or(|started| started.elapsed() >= self.spec.throttle)
    }

    /// Evaluates the newest checkpoint unless that was done, then exports. During training, it waits until there are
    /// enough steps since the last evaluation.
    pub(crate) fn evaluate(&mut self, is_final: bool) -> Result<()> {
        while let Some(newest) = self.newest()? {
            match self.evaluate_one(&newest, is_final) {
                Err(error) if is_damage(&error) && self.newest()?.as_ref() == Some(&newest) => {
                    tracing::warn!(checkpoint = newest, code = %error.code(), "{newest} is skipped: {error}");
                    self.damaged.insert(newest);
                }
                evaluated => return evaluated,
            }
        }
        Ok(())
    }

    /// Returns the newest checkpoint that is not known to be damaged.
    fn newest(&self) -> Result<Option<String>> {
        Ok(newest_first(&self.estimator.dir)?.into_iter().find(|name| !self.damaged.contains(name)))
    }

    fn evaluate_one(&mut self, newest: &str, is_final: bool) -> Result<()> {
        let known = self.last.clone().filter(|last| last.checkpoint == newest);
        if known.is_some() && (!is_final || self.ended || self.spec.exporters.is_empty()) {
            return Ok(());
        }
        // Checked before the model is loaded, which may take long.
        let step = Checkpoint::open(&self.estimator.dir, newest)?.global_step()?;
        let before = self.last.as_ref().map(|last| last.global_step);
        let enough = before.is_none_or(|before| step >= before + self.spec.every_steps);
        if !enough && !is_final {
            return Ok(());
        }
        let trained = TrainedModel::load(&self.estimator.model, &self.estimator.dir, newest)?;
        let is_new = known.is_none();
        let found = match known {
            Some(found) => found,
            None => {
                self.started = Some(Instant::now());
                let input_fn = &*self.spec.input_fn;
                self.estimator.evaluate_as(&trained, &input_fn, self.spec.steps, self.spec.name.as_deref())?
            }
        };
        if is_new {
            let step = found.global_step;
            tracing::info!(step, "evaluated step {step}: {found}");
            // Once is enough: every evaluation reads the same batches.
            if let Some(remark) = found.remark().filter(|_| self.last.is_none()) {
                tracing::info!(step, "{remark}");
            }
        }
        for exporter in self.spec.exporters.iter().filter(|exporter| is_new || exporter.is_final_only()) {
            if let Some(folder) = exporter.export(self.estimator, self.spec, &trained, &found, is_final)? {
                let step = found.global_step;
                tracing::info!(step, "exported step {step} to {}", folder.display());
            }
        }
        self.ended |= is_final;
        self.last = Some(found);
        Ok(())
    }

    /// Evaluates until training has ended.
    pub(crate) fn run(mut self, max_steps: Option<u64>) -> Result<Option<Evaluation>> {
        let began = Instant::now();
        let mut watcher = HeartbeatReader::new(&self.estimator.dir)?;
        loop {
            if let Some(error) = self.estimator.config.options.interrupt.error() {
                return Err(error);
            }
            // Observed before the checkpoints, so that the last one is not missed.
            let observation = watcher.look(PATIENCE)?;
            let over = observation != Observation::Open;
            if over || began.elapsed() >= self.spec.start_delay && self.is_due() {
                self.evaluate_or_wait(over)?;
            }
            let reached = |last: &Evaluation| max_steps.is_some_and(|most| last.global_step >= most);
            if self.last.as_ref().is_some_and(reached) {
                self.evaluate(true)?;
                return Ok(self.last);
            }
            if observation.has_ended(&self.estimator.dir)? {
                return Ok(self.last);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Evaluates. Ignores an error if a newer checkpoint has appeared: the old one may have been deleted while it was
    /// read.
    fn evaluate_or_wait(&mut self, anyway: bool) -> Result<()> {
        let before = self.estimator.latest_checkpoint()?;
        match self.evaluate(anyway) {
            Err(error) if self.estimator.latest_checkpoint()? != before => {
                let checkpoint = before.unwrap_or_default();
                tracing::warn!(checkpoint, code = %error.code(), "{checkpoint} was deleted while it was read: {error}");
                Ok(())
            }
            evaluated => evaluated,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LinearRegressor, RunConfig, TrainSteps};
    use phalanx_data::{Batch, Column, Dataset};
    use phalanx_feature::numeric_column;
    use phalanx_train::testing::LogRecorder;

    fn rows() -> Dataset {
        let columns = [("x", Column::f32(vec![1.0; 8])), ("y", Column::f32(vec![2.0; 8]))];
        Dataset::from_tensor_slices(Batch::new(columns).unwrap().with_label("y").unwrap())
    }

    /// A damaged checkpoint shows whether it is read.
    #[test]
    fn a_checkpoint_is_read_only_when_it_is_due_and_passed_over_when_it_is_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let log = LogRecorder::default();
        let config = RunConfig::new().model_dir(folder.path().to_string_lossy()).log_step_count_steps(None);
        let estimator = Estimator::new(&LinearRegressor::new([numeric_column("x")]), config).unwrap();
        let train = || estimator.train(|_| rows().repeat().batch(4), TrainSteps::More(3)).unwrap();
        let spec = EvalSpec::new(|_| rows().batch(8)).every_steps(1000);
        let mut evaluator = Evaluator::new(&estimator, &spec);
        train();
        evaluator.evaluate(false).unwrap();
        assert_eq!(evaluator.last.as_ref().map(|last| last.global_step), Some(3));
        train();
        let newest = estimator.latest_checkpoint().unwrap().unwrap();
        damage(&estimator.dir, folder.path(), &newest);
        log.record(|| evaluator.evaluate(false)).unwrap();
        assert!(!log.contains("is skipped"), "it was read although it is not due: {log:?}");
        log.record(|| evaluator.evaluate(true)).unwrap();
        assert!(log.contains("is skipped"), "{log:?}");
    }

    #[test]
    fn early_checkpoints_of_the_default_interval_are_not_evaluated_in_the_trainer() {
        let folder = tempfile::tempdir().unwrap();
        let config = || RunConfig::new().model_dir(folder.path().to_string_lossy());
        let spec = EvalSpec::new(|_| rows().batch(8)).start_delay_secs(60);
        for (config, early) in [(config(), false), (config().save_checkpoints_secs(5), true)] {
            let estimator = Estimator::new(&LinearRegressor::new([numeric_column("x")]), config).unwrap();
            let evaluator = Evaluator::new(&estimator, &spec);
            assert_eq!(evaluator.may_begin(Duration::from_secs(59)), early);
            assert!(evaluator.may_begin(Duration::from_secs(60)));
        }
    }

    /// Flips a bit in every tensor but the step.
    fn damage(dir: &phalanx_storage::Dir, folder: &std::path::Path, checkpoint: &str) {
        let file = folder.join(format!("{checkpoint}.data-00000-of-00001"));
        let mut bytes = std::fs::read(&file).unwrap();
        let opened = Checkpoint::open(dir, checkpoint).unwrap();
        let tensors = opened.tensors().index().tensors().iter().filter(|(name, _)| *name != "global_step");
        for span in tensors.flat_map(|(_, info)| info.spans()).filter(|span| span.size > 0) {
            bytes[span.offset as usize] ^= 1;
        }
        std::fs::write(&file, bytes).unwrap();
    }
}
