//! What a training and its evaluations are told: steps, hooks, schedules, exports.

use crate::estimator_calls::{FirstRaised, PyHook, input_fn};
use phalanx::estimator::{EarlyStopping, EvalSpec, Exporter, Hook, ServingInput, TrainSpec};
use phalanx_base::Result;
use pyo3::prelude::*;

/// A hook of the training.
#[derive(FromPyObject)]
pub(crate) enum HookOf {
    /// The run directory, the name of the evaluations, the metric, whether it should rise, the steps without, and the seconds
    /// between two looks.
    EarlyStopping(String, Option<String>, String, bool, u64, u64),
    Program(Py<PyAny>),
}

impl HookOf {
    pub(crate) fn hook(self, raised: &FirstRaised) -> Result<Box<dyn Hook>> {
        let (model_dir, name, metric, rises, patience, secs) = match self {
            Self::Program(hook) => return Ok(Box::new(PyHook::new(hook, raised.clone()))),
            Self::EarlyStopping(model_dir, name, metric, rises, patience, secs) => {
                (model_dir, name, metric, rises, patience, secs)
            }
        };
        let stopping = if rises {
            EarlyStopping::no_increase(&model_dir, &metric, patience)?
        } else {
            EarlyStopping::no_decrease(&model_dir, &metric, patience)?
        };
        let stopping = match name {
            Some(name) => stopping.evaluations(&model_dir, &name)?,
            None => stopping,
        };
        Ok(Box::new(stopping.run_every_secs(secs)))
    }
}

/// A `phalanx.estimator.TrainSpec`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Train {
    input_fn: Py<PyAny>,
    max_steps: Option<u64>,
    hooks: Vec<HookOf>,
}

/// A hook made by [`HookOf`].
struct Boxed(Box<dyn Hook>);

impl Hook for Boxed {
    fn begin(&mut self, global_step: u64) -> Result<()> {
        self.0.begin(global_step)
    }

    fn after_step(&mut self, step: &phalanx::prelude::Step) -> Result<phalanx::estimator::Control> {
        self.0.after_step(step)
    }

    fn end(&mut self, global_step: u64) -> Result<()> {
        self.0.end(global_step)
    }
}

impl Train {
    pub(crate) fn spec(self, raised: &FirstRaised) -> Result<TrainSpec> {
        let mut spec = TrainSpec::new(input_fn(self.input_fn, raised.clone()));
        if let Some(steps) = self.max_steps {
            spec = spec.max_steps(steps);
        }
        for hook in self.hooks {
            spec = spec.hook(Boxed(hook.hook(raised)?));
        }
        Ok(spec)
    }
}

/// A `phalanx.estimator.EvalSpec`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Eval {
    input_fn: Py<PyAny>,
    steps: Option<u64>,
    name: Option<String>,
    start_delay_secs: u64,
    throttle_secs: u64,
    every_steps: u64,
    exporters: Vec<ExporterOf>,
}

impl Eval {
    pub(crate) fn spec(self, raised: &FirstRaised) -> EvalSpec {
        let mut spec = EvalSpec::new(input_fn(self.input_fn, raised.clone()))
            .steps(self.steps)
            .start_delay_secs(self.start_delay_secs)
            .throttle_secs(self.throttle_secs)
            .every_steps(self.every_steps);
        if let Some(name) = self.name {
            spec = spec.name(name);
        }
        self.exporters.into_iter().fold(spec, |spec, exporter| spec.exporter(exporter.exporter()))
    }
}

/// An exporter of `phalanx.estimator`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct ExporterOf {
    kind: String,
    name: String,
    metric: String,
    higher: bool,
    raw: bool,
    exports_to_keep: usize,
    assets_extra: Vec<(String, Vec<u8>)>,
}

impl ExporterOf {
    fn exporter(self) -> Exporter {
        let exporter = match self.kind.as_str() {
            "final" => Exporter::at_end(self.name),
            "latest" => Exporter::latest(self.name),
            _ if self.higher => Exporter::best(self.name).by_highest(self.metric),
            _ => Exporter::best(self.name).by_lowest(self.metric),
        };
        let exporter = exporter.serving_input(serving_input(self.raw)).exports_to_keep(self.exports_to_keep);
        self.assets_extra.into_iter().fold(exporter, |exporter, (name, content)| exporter.asset_extra(name, content))
    }
}

/// Returns the input of an exported model.
pub(crate) fn serving_input(raw: bool) -> ServingInput {
    if raw { ServingInput::Raw } else { ServingInput::Examples }
}
