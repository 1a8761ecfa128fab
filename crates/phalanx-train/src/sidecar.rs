//! An evaluator beside a job: it follows the checkpoints of the run directory, without connections to other tasks.

use crate::checkpoint::{CheckpointStore, Retention, is_damage};
use crate::job_state::HeartbeatReader;
use crate::run_dir;
use crate::{Interrupt, SummaryWriter, logging};
use phalanx_base::{Code, Error, Result};
use phalanx_nn::burn::module::Module;
use phalanx_nn::{Parameter, ParameterRegistry};
use phalanx_ps::checkpoint::{Checkpoint, table_keys, table_values};
use phalanx_storage::Dir;
use std::collections::BTreeSet;
use std::time::Duration;

/// How often the run directory is checked.
const LOOK: Duration = Duration::from_millis(200);

/// TensorFlow's `SidecarEvaluator`: evaluates the newest checkpoint whenever there is a new one, and ends with the job.
/// Its results go to event files in `eval/` of the run directory, as `evaluation_<name>_vs_iterations`.
///
/// ```no_run
/// use phalanx_nn::burn::nn::{Linear, LinearConfig};
/// use phalanx_train::SidecarEvaluator;
/// let model: Linear = LinearConfig::new(2, 1).init(&phalanx_nn::default_device());
/// let evaluated = SidecarEvaluator::new("runs/a")?.run(model, |model, step| {
///     println!("step {step}");
///     Ok(vec![("loss".to_owned(), 0.5)])
/// })?;
/// # Ok::<(), phalanx_base::Error>(())
/// ```
pub struct SidecarEvaluator {
    dir: Dir,
    basename: String,
    max_evaluations: Option<u64>,
    patience: Duration,
    interrupt: Interrupt,
}

impl SidecarEvaluator {
    /// Follows the job with this run directory.
    ///
    /// # Errors
    /// When the location is malformed, or this build cannot reach it.
    pub fn new(location: &str) -> Result<Self> {
        Ok(Self {
            dir: run_dir::open_run_dir(location)?,
            basename: crate::checkpoint::BASENAME.to_owned(),
            max_evaluations: None,
            patience: Duration::from_secs(60),
            interrupt: Interrupt::default(),
        })
    }

    /// Ends after a checkpoint of at least this step, as in TensorFlow.
    #[must_use]
    pub fn max_evaluations(mut self, step: u64) -> Self {
        self.max_evaluations = Some(step);
        self
    }

    /// Sets how long the heartbeats of the chief may stay away.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Ends when this process is asked to stop.
    #[must_use]
    pub fn interrupt(mut self, interrupt: Interrupt) -> Self {
        self.interrupt = interrupt;
        self
    }

    /// Evaluates until the job has ended and its last checkpoint was evaluated. Returns the number of evaluations. `evaluate`
    /// gets the model with the checkpoint's values and its step, and returns names and numbers.
    ///
    /// # Errors
    /// When the job fails or its heartbeats stay away, a checkpoint does not fit the model, and what `evaluate` returns.
    pub fn run<M: Module>(
        self,
        mut model: M,
        mut evaluate: impl FnMut(&M, u64) -> Result<Vec<(String, f64)>>,
    ) -> Result<u64> {
        logging::init();
        let registry = ParameterRegistry::of(&model)?;
        let summaries = SummaryWriter::open(&self.dir.child("eval")?)?;
        let mut watcher = HeartbeatReader::new(&self.dir)?;
        let (mut seen, mut count) = (None, 0);
        // Checkpoints that cannot be used, by name: each is logged once.
        let mut damaged = BTreeSet::new();
        loop {
            if let Some(error) = self.interrupt.error() {
                return Err(error);
            }
            // Before the checkpoints, so that the last one is not missed.
            let observation = watcher.look(self.patience)?;
            let known_damaged = damaged.len();
            let newest = self.newest(&damaged)?.filter(|newest| seen.as_ref() != Some(newest));
            if let Some((name, (loaded, step))) =
                newest.map(|name| self.load(name, &registry, &model, &mut damaged)).transpose()?.flatten()
            {
                model = loaded;
                self.write(&summaries, step, &evaluate(&model, step)?);
                (seen, count) = (Some(name), count + 1);
                if self.max_evaluations.is_some_and(|most| step >= most) {
                    return Ok(count);
                }
            }
            if damaged.len() > known_damaged {
                // The one before it may not have been evaluated.
                continue;
            }
            if observation.has_ended(&self.dir)? {
                return Ok(count);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Loads a checkpoint; `None` where it was deleted meanwhile, because training is faster than evaluation, or is damaged.
    /// A damaged one is logged, and the one before it is evaluated, as a chief does.
    fn load<M: Module>(
        &self,
        name: String,
        registry: &ParameterRegistry,
        model: &M,
        damaged: &mut BTreeSet<String>,
    ) -> Result<Option<(String, (M, u64))>> {
        match load(&self.dir, &name, registry, model.clone()) {
            Ok(loaded) => Ok(Some((name, loaded))),
            Err(error) if is_damage(&error) && self.newest(damaged)?.as_ref() == Some(&name) => {
                tracing::warn!(checkpoint = name, code = %error.code(), "evaluator: {name} is skipped: {error}");
                damaged.insert(name);
                Ok(None)
            }
            Err(error) if self.newest(damaged)?.as_ref() != Some(&name) => {
                tracing::warn!(checkpoint = name, code = %error.code(), "evaluator: {name} was deleted while it was read: {error}");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn write(&self, summaries: &SummaryWriter, step: u64, found: &[(String, f64)]) {
        for (tag, number) in found {
            summaries.scalar(step, &format!("evaluation_{tag}_vs_iterations"), *number as f32);
        }
        let found: Vec<String> = found.iter().map(|(tag, number)| format!("{tag} {number:.4}")).collect();
        tracing::info!(step, "evaluator: step {step}: {}", found.join(", "));
    }

    /// Returns the newest checkpoint that is not known to be damaged.
    fn newest(&self, damaged: &BTreeSet<String>) -> Result<Option<String>> {
        let checkpoints = CheckpointStore::open(&self.dir, &self.basename, Retention::default())?;
        Ok(checkpoints.newest_first().into_iter().find(|name| !damaged.contains(name)))
    }
}

/// Returns the model with a checkpoint's values, and its step.
fn load<M: Module>(dir: &Dir, name: &str, registry: &ParameterRegistry, model: M) -> Result<(M, u64)> {
    let checkpoint = Checkpoint::open(dir, name)?;
    let mut values = Vec::with_capacity(registry.parameters().len());
    for parameter in registry.parameters() {
        if checkpoint.index().tensors().contains_key(&table_keys(&parameter.name)) {
            values.push(Some(table(&checkpoint, parameter, registry, &model)?));
            continue;
        }
        let tensor = checkpoint.tensors().read(&parameter.name)?;
        if tensor.shape != parameter.shape {
            return Err(Error::new(Code::CheckpointMismatch, format!("{:?} has another shape", parameter.name))
                .at(format!("{}/{name}", dir.location()))
                .because(format!("it is {} there and {} in the model", tensor.shape, parameter.shape))
                .help("build the model as it was built when it was saved"));
        }
        values.push(Some(tensor.f32s()?));
    }
    let step = checkpoint.global_step()?;
    Ok((registry.load(model, values), step))
}

/// Returns the values of a variable that is a table in the job: its rows that exist, and the present values of the others.
fn table<M: Module>(
    checkpoint: &Checkpoint,
    parameter: &Parameter,
    registry: &ParameterRegistry,
    model: &M,
) -> Result<Vec<f32>> {
    let place = registry.parameters().iter().position(|known| known == parameter);
    let mut present = registry.values(model)?;
    let mut values: Vec<f32> = place.map_or_else(Vec::new, |place| present.swap_remove(place).into());
    let tensors = checkpoint.tensors();
    let keys = tensors.read(&table_keys(&parameter.name))?.i64s()?;
    let rows = tensors.read(&table_values(&parameter.name))?.f32s()?;
    let dim = parameter.shape.row_elements();
    for (key, row) in keys.into_iter().zip(rows.chunks_exact(dim.max(1))) {
        let own = usize::try_from(key).ok().and_then(|key| values.get_mut(key.checked_mul(dim)?..)?.get_mut(..dim));
        let own = own.ok_or_else(|| {
            Error::new(Code::CheckpointMismatch, format!("{:?} has no row {key}", parameter.name))
                .because(format!("its shape in the model is {}", parameter.shape))
                .help("build the model as it was built when it was saved")
        })?;
        own.copy_from_slice(row);
    }
    Ok(values)
}
