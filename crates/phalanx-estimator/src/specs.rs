//! What is trained on, and what is evaluated when.

use crate::{Exporter, Hook};
use phalanx_base::{Code, Error, Result};
use phalanx_data::{Dataset, InputContext};
use std::time::Duration;

/// Makes the input of a task.
pub(crate) type InputFn = Box<dyn Fn(InputContext) -> Dataset + Send + Sync>;

/// `tf.estimator.TrainSpec`: the input of a training, and how long it lasts.
///
/// ```
/// use phalanx_data::{Input, csv};
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
    /// Trains on what `input_fn` makes until that ends. It is told which trainer of how many it is made for; what it
    /// does not share among them is shared all the same.
    pub fn new(input_fn: impl Fn(InputContext) -> Dataset + Send + Sync + 'static) -> Self {
        Self { input_fn: Box::new(input_fn), max_steps: None, hooks: Vec::new() }
    }

    /// Ends when so many steps have been made in all, those of former runs included.
    #[must_use]
    pub fn max_steps(mut self, steps: u64) -> Self {
        self.max_steps = Some(steps);
        self
    }

    /// Called around the training, in every task that trains.
    #[must_use]
    pub fn hook(mut self, hook: impl Hook + 'static) -> Self {
        self.hooks.push(Box::new(hook));
        self
    }
}

/// `tf.estimator.EvalSpec`: the input of evaluations, and how often there is one.
///
/// ```
/// use phalanx_data::{Input, csv};
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
    /// Evaluates on what `input_fn` makes: 100 batches of it, at most every 600 seconds, as TensorFlow does.
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

    /// Evaluates so many batches; `None` evaluates all.
    #[must_use]
    pub fn steps(mut self, steps: impl Into<Option<u64>>) -> Self {
        self.steps = steps.into();
        self
    }

    /// Tells several evaluations apart: they go to `eval_NAME/`.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// How long an evaluator waits before its first evaluation.
    #[must_use]
    pub fn start_delay_secs(mut self, seconds: u64) -> Self {
        self.start_delay = Duration::from_secs(seconds);
        self
    }

    /// How long there is at least between the starts of two evaluations.
    #[must_use]
    pub fn throttle_secs(mut self, seconds: u64) -> Self {
        self.throttle = Duration::from_secs(seconds);
        self
    }

    /// How many steps there are at least between two evaluations; of checkpoints in between none is evaluated.
    #[must_use]
    pub fn every_steps(mut self, steps: u64) -> Self {
        self.every_steps = steps;
        self
    }

    /// Exports beside evaluations.
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
                return wrong("two exporters have one name", "give each a name of its own");
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
