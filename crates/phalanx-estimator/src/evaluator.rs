//! The evaluator: evaluates the checkpoints of the run directory until training has ended.

use crate::run_config::CheckpointInterval;
use crate::trained::{TrainedModel, newest_first};
use crate::{Estimator, EvalSpec, EvalSpecs, Evaluation, Trainable};
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

/// Evaluates checkpoints on every input of a job and runs exporters.
pub(crate) struct Evaluator<'a, M: Trainable> {
    estimator: &'a Estimator<M>,
    inputs: Vec<EvalInput<'a>>,
    /// The checkpoint that was loaded last: several inputs are evaluated with it.
    loaded: Option<TrainedModel<M>>,
    /// The names of damaged checkpoints; each is logged once.
    damaged: BTreeSet<String>,
}

/// One of the inputs that checkpoints are evaluated on.
struct EvalInput<'a> {
    spec: &'a EvalSpec,
    started: Option<Instant>,
    /// Whether exporters have run for the end of training.
    ended: bool,
    /// The last evaluation.
    last: Option<Evaluation>,
}

impl EvalInput<'_> {
    /// Returns whether enough time has passed since the last evaluation.
    fn is_due(&self) -> bool {
        self.started.is_none_or(|started| started.elapsed() >= self.spec.throttle)
    }
}

impl<'a, M: Trainable> Evaluator<'a, M> {
    pub(crate) fn new(estimator: &'a Estimator<M>, specs: &'a EvalSpecs) -> Self {
        logging::init();
        let input = |spec| EvalInput { spec, started: None, ended: false, last: None };
        let inputs = specs.0.iter().map(input).collect();
        Self { estimator, inputs, loaded: None, damaged: BTreeSet::new() }
    }

    /// Returns the last evaluation on each input, with its name.
    pub(crate) fn last(self) -> Vec<(Option<String>, Evaluation)> {
        self.inputs.into_iter().filter_map(|input| Some((input.spec.name.clone(), input.last?))).collect()
    }

    /// Evaluates a checkpoint in the process that trains, on the inputs that are due in a training of this age. The first
    /// checkpoints of the default interval come so early that evaluating them would only delay the training.
    pub(crate) fn evaluate_due(&mut self, age: Duration) -> Result<()> {
        let early = self.estimator.config.checkpoint_interval == CheckpointInterval::Growing;
        self.evaluate_if(false, |input| (!early || age >= input.spec.start_delay) && input.is_due())
    }

    /// Evaluates the newest checkpoint on every input.
    pub(crate) fn evaluate(&mut self, is_final: bool) -> Result<()> {
        self.evaluate_if(is_final, |_| true)
    }

    fn evaluate_if(&mut self, is_final: bool, is_wanted: impl Fn(&EvalInput<'_>) -> bool) -> Result<()> {
        for at in 0..self.inputs.len() {
            if is_wanted(&self.inputs[at]) {
                self.evaluate_on(at, is_final)?;
            }
        }
        // A model may be large; it is loaded again for the next checkpoint anyway.
        self.loaded = None;
        Ok(())
    }

    /// Evaluates the newest checkpoint on one input unless that was done, then exports. During training, it waits until
    /// there are enough steps since the last evaluation.
    fn evaluate_on(&mut self, at: usize, is_final: bool) -> Result<()> {
        while let Some(newest) = self.newest()? {
            match self.evaluate_one(at, &newest, is_final) {
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

    fn evaluate_one(&mut self, at: usize, newest: &str, is_final: bool) -> Result<()> {
        let (estimator, input) = (self.estimator, &mut self.inputs[at]);
        let spec = input.spec;
        let known = input.last.clone().filter(|last| last.checkpoint == newest);
        if known.is_some() && (!is_final || input.ended || spec.exporters.is_empty()) {
            return Ok(());
        }
        // Checked before the model is loaded, which may take long.
        let step = Checkpoint::open(&estimator.dir, newest)?.global_step()?;
        let before = input.last.as_ref().map(|last| last.global_step);
        let enough = before.is_none_or(|before| step >= before + spec.every_steps);
        if !enough && !is_final {
            return Ok(());
        }
        let loaded = self.loaded.take().filter(|loaded| loaded.checkpoint == newest);
        let trained = match loaded {
            Some(trained) => trained,
            None => TrainedModel::load(&estimator.model, &estimator.dir, newest)?,
        };
        let is_new = known.is_none();
        let found = match known {
            Some(found) => found,
            None => {
                input.started = Some(Instant::now());
                estimator.evaluate_as(&trained, &*spec.input_fn, spec.steps, spec.name.as_deref())?
            }
        };
        if is_new {
            let step = found.global_step;
            match &spec.name {
                Some(name) => tracing::info!(step, name, "evaluated step {step} on {name}: {found}"),
                None => tracing::info!(step, "evaluated step {step}: {found}"),
            }
            // Once is enough: every evaluation reads the same batches.
            if let Some(remark) = found.remark().filter(|_| input.last.is_none()) {
                tracing::info!(step, "{remark}");
            }
        }
        for exporter in spec.exporters.iter().filter(|exporter| is_new || exporter.is_final_only()) {
            if let Some(folder) = exporter.export(estimator, spec, &trained, &found, is_final)? {
                let step = found.global_step;
                tracing::info!(step, "exported step {step} to {}", folder.display());
            }
        }
        input.ended |= is_final;
        input.last = Some(found);
        self.loaded = Some(trained);
        Ok(())
    }

    /// Evaluates until training has ended.
    pub(crate) fn run(mut self, max_steps: Option<u64>) -> Result<Vec<(Option<String>, Evaluation)>> {
        let began = Instant::now();
        let mut watcher = HeartbeatReader::new(&self.estimator.dir)?;
        loop {
            if let Some(error) = self.estimator.config.options.interrupt.error() {
                return Err(error);
            }
            // Observed before the checkpoints, so that the last one is not missed.
            let observation = watcher.look(PATIENCE)?;
            self.evaluate_or_wait(observation != Observation::Open, began.elapsed())?;
            let reached = |last: &Evaluation| max_steps.is_some_and(|most| last.global_step >= most);
            let done = |input: &EvalInput<'_>| input.last.as_ref().is_some_and(reached);
            if !self.inputs.is_empty() && self.inputs.iter().all(done) {
                self.evaluate(true)?;
                return Ok(self.last());
            }
            if observation.has_ended(&self.estimator.dir)? {
                return Ok(self.last());
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Evaluates what is due, or everything when training is over. Ignores an error if a newer checkpoint has appeared: the
    /// old one may have been deleted while it was read.
    fn evaluate_or_wait(&mut self, is_over: bool, age: Duration) -> Result<()> {
        let is_wanted = |input: &EvalInput<'_>| is_over || age >= input.spec.start_delay && input.is_due();
        if !self.inputs.iter().any(is_wanted) {
            return Ok(());
        }
        let before = self.estimator.latest_checkpoint()?;
        match self.evaluate_if(is_over, is_wanted) {
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
        let spec = EvalSpec::new(|_| rows().batch(8)).every_steps(1000).into();
        let mut evaluator = Evaluator::new(&estimator, &spec);
        train();
        evaluator.evaluate(false).unwrap();
        assert_eq!(evaluator.inputs[0].last.as_ref().map(|last| last.global_step), Some(3));
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
        let spec = EvalSpec::new(|_| rows().batch(8)).start_delay_secs(60).into();
        for (config, early) in [(config(), false), (config().save_checkpoints_secs(5), true)] {
            let estimator = Estimator::new(&LinearRegressor::new([numeric_column("x")]), config).unwrap();
            estimator.train(|_| rows().repeat().batch(4), TrainSteps::More(1)).unwrap();
            let mut evaluator = Evaluator::new(&estimator, &spec);
            evaluator.evaluate_due(Duration::from_secs(59)).unwrap();
            assert_eq!(evaluator.inputs[0].last.is_some(), early);
            evaluator.evaluate_due(Duration::from_secs(60)).unwrap();
            assert!(evaluator.inputs[0].last.is_some());
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
