//! The inputs and schedules of training and evaluation.

use crate::{Exporter, Hook};
use phalanx_base::{Code, Error, Result};
use phalanx_data::{Dataset, InputContext};
use std::time::Duration;

/// Creates the input of a task.
pub(crate) type InputFn = Box<dyn Fn(InputContext) -> Dataset + Send + Sync>;

/// `tf.estimator.TrainSpec`: the input and duration of a training.
///
/// ```
/// use phalanx_data::{SourceExt, csv};
/// use phalanx_estimator::TrainSpec;
/// let train = TrainSpec::new(|cx| csv("train-*.csv").label("income").shard(cx).shuffle(10_000).repeat().batch(128))
///     .max_steps(20_000);
/// # let _ = train;
/// ```
pub struct TrainSpec {
    pub(crate) input_fn: InputFn,
    pub(crate) max_steps: Option<u64>,
    pub(crate) hooks: Vec<Box<dyn Hook>>,
}

impl TrainSpec {
    /// Trains on the dataset of `input_fn` until it ends. If the function does not shard it among the trainers, it is
    /// sharded automatically.
    pub fn new(input_fn: impl Fn(InputContext) -> Dataset + Send + Sync + 'static) -> Self {
        Self { input_fn: Box::new(input_fn), max_steps: None, hooks: Vec::new() }
    }

    /// Stops at this global step, which includes the steps of earlier runs.
    #[must_use]
    pub fn max_steps(mut self, steps: u64) -> Self {
        self.max_steps = Some(steps);
        self
    }

    /// Adds a hook to every task that trains.
    #[must_use]
    pub fn hook(mut self, hook: impl Hook + 'static) -> Self {
        self.hooks.push(Box::new(hook));
        self
    }
}

/// `tf.estimator.EvalSpec`: the input and schedule of evaluations.
///
/// ```
/// use phalanx_data::{SourceExt, csv};
/// use phalanx_estimator::EvalSpec;
/// let eval = EvalSpec::new(|_| csv("test.csv").label("income").batch(256)).steps(None).throttle_secs(60);
/// # let _ = eval;
/// ```
pub struct EvalSpec {
    pub(crate) input_fn: InputFn,
    pub(crate) steps: Option<u64>,
    pub(crate) name: Option<String>,
    pub(crate) start_delay: Duration,
    pub(crate) throttle: Duration,
    pub(crate) every_steps: u64,
    pub(crate) exporters: Vec<Exporter>,
}

impl EvalSpec {
    /// Evaluates 100 batches of the dataset of `input_fn`, at most every 600 seconds, as TensorFlow does.
    pub fn new(input_fn: impl Fn(InputContext) -> Dataset + Send + Sync + 'static) -> Self {
        Self {
            input_fn: Box::new(input_fn),
            steps: Some(100),
            name: None,
            start_delay: Duration::from_secs(120),
            throttle: Duration::from_secs(600),
            every_steps: 0,
            exporters: Vec::new(),
        }
    }

    phalanx_train::setters! {
        /// Sets how many batches are evaluated; `None` evaluates all.
        steps(steps: impl Into<Option<u64>>) { steps = steps.into() }
        /// Names the evaluation, whose metrics then go to `eval_NAME/`.
        name(name: impl Into<String>) { name = Some(name.into()) }
        /// Sets how long an evaluator waits before its first evaluation; 120 seconds by default.
        start_delay_secs(seconds: u64) { start_delay = Duration::from_secs(seconds) }
        /// Sets the shortest time between the starts of two evaluations; 600 seconds by default.
        throttle_secs(seconds: u64) { throttle = Duration::from_secs(seconds) }
        /// Sets the fewest steps between two evaluations; 0 by default. Checkpoints in between are skipped.
        every_steps(steps: u64) { every_steps = steps }
    }

    /// Adds an exporter.
    #[must_use]
    pub fn exporter(mut self, exporter: Exporter) -> Self {
        self.exporters.push(exporter);
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        let wrong = |what: &str, help: &str| Err(Error::new(Code::BadSetting, what).at("EvalSpec").help(help));
        if self.steps == Some(0) {
            return wrong("an evaluation of 0 batches", "give at least 1, or None for all");
        }
        for (at, exporter) in self.exporters.iter().enumerate() {
            let name = exporter.name();
            if name.is_empty() || name.contains('/') {
                return wrong("an exporter's name is a folder's name", "give letters and digits");
            }
            if self.exporters[..at].iter().any(|other| other.name() == name) {
                return wrong("two exporters have the same name", "rename one");
            }
        }
        match &self.name {
            Some(name) if name.is_empty() || name.contains('/') => {
                wrong("an evaluation's name is part of a folder's name", "give letters and digits")
            }
            _ => Ok(()),
        }
    }
}

/// The evaluations of a job: one [`EvalSpec`], several with names of their own, or none.
///
/// ```
/// use phalanx_data::{SourceExt, csv};
/// use phalanx_estimator::{EvalSpec, EvalSpecs};
/// let test = EvalSpec::new(|_| csv("test.csv").label("income").batch(256));
/// // A part of the training data, which shows overfitting: its metrics go to eval_train/.
/// let train = EvalSpec::new(|_| csv("train.csv").label("income").batch(256)).name("train");
/// let all = EvalSpecs::from([test, train]);
/// # let _ = all;
/// ```
#[derive(Default)]
pub struct EvalSpecs(pub(crate) Vec<EvalSpec>);

impl From<EvalSpec> for EvalSpecs {
    fn from(one: EvalSpec) -> Self {
        Self(vec![one])
    }
}

impl From<Vec<EvalSpec>> for EvalSpecs {
    fn from(all: Vec<EvalSpec>) -> Self {
        Self(all)
    }
}

impl<const N: usize> From<[EvalSpec; N]> for EvalSpecs {
    fn from(all: [EvalSpec; N]) -> Self {
        Self(all.into())
    }
}

impl EvalSpecs {
    pub(crate) fn check(&self) -> Result<()> {
        for (at, spec) in self.0.iter().enumerate() {
            spec.check()?;
            if self.0[..at].iter().any(|other| other.name == spec.name) {
                let what = match &spec.name {
                    Some(name) => format!("two evaluations are called {name:?}"),
                    None => "two evaluations have no name".to_owned(),
                };
                return Err(Error::new(Code::BadSetting, what)
                    .at("EvalSpec")
                    .because("their metrics would go to the same folder")
                    .help("give each a name of its own; one may have none"));
            }
            let exporters = self.0[..at].iter().flat_map(|other| &other.exporters);
            if let Some(twice) =
                exporters.map(Exporter::name).find(|name| spec.exporters.iter().any(|own| own.name() == *name))
            {
                return Err(Error::new(Code::BadSetting, format!("two exporters are called {twice:?}"))
                    .at("EvalSpec")
                    .help("rename one"));
            }
        }
        Ok(())
    }
}
