//! `phalanx.estimator`: training, evaluation, prediction and export of canned models, in every role of a job.

use crate::data::Closable;
use crate::data_columns::columns_of;
use crate::error::Raise;
use crate::estimator_calls::{self as calls, FirstRaised, PyStop};
use crate::estimator_config::{self, Config};
use crate::estimator_model::PyModel;
use crate::estimator_specs::{Eval, HookOf, Train, serving_input};
use crate::gate::{Gate, OnCtrlC};
use phalanx::estimator::{
    Canned, Estimator, Evaluation, Hook, Predictions, Report, TrainSteps, Training, train_and_evaluate,
};
use phalanx::storage::Dir;
use phalanx_base::{Code, Error, Result};
use phalanx_ps::checkpoint::Checkpoint;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::path::PathBuf;
use std::sync::PoisonError;

/// A canned model and the settings of its run. The classes of `phalanx.estimator` are its faces.
#[pyclass(frozen, module = "phalanx._phalanx", name = "Estimator")]
pub(crate) struct PyEstimator {
    model: PyModel,
    config: Config,
}

impl PyEstimator {
    /// Returns what makes the estimator for one call, whose tasks Ctrl-C in `gate` stops.
    fn opened(&self, gate: &Gate) -> impl FnOnce() -> Result<Estimator<Canned>> + Send + use<> {
        let (model, config, gate) = (self.model.clone(), self.config.clone(), gate.clone());
        move || Estimator::new(&model, config.run_config(&gate)?)
    }
}

#[pymethods]
impl PyEstimator {
    #[new]
    fn new(model: PyModel, config: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self { model, config: Config::read(config)? })
    }

    /// Trains, for `steps` more or up to `max_steps` in all. Returns the global step.
    #[pyo3(signature = (stop, input_fn, steps, max_steps, hooks))]
    fn train(
        &self,
        py: Python<'_>,
        stop: &PyStop,
        input_fn: Py<PyAny>,
        steps: Option<u64>,
        max_steps: Option<u64>,
        hooks: Vec<HookOf>,
    ) -> PyResult<u64> {
        let (gate, raised) = (stop.0.clone(), FirstRaised::default());
        let opened = self.opened(&gate);
        let steps = match (steps, max_steps) {
            (Some(steps), _) => TrainSteps::More(steps),
            (None, Some(steps)) => TrainSteps::Max(steps),
            (None, None) => TrainSteps::UntilEnd,
        };
        let hooks: Result<Vec<Box<dyn Hook>>> = hooks.into_iter().map(|hook| hook.hook(&raised)).collect();
        let (mut hooks, input) = (hooks.or_raise(py)?, calls::input_fn(input_fn, raised.clone()));
        let work = move || opened()?.train_with(input, steps, &mut hooks).map(|done| done.global_step);
        raised.or(py, gate.enter_as(py, OnCtrlC::Finish, work))
    }

    /// Evaluates the newest checkpoint.
    #[pyo3(signature = (input_fn, steps, name))]
    fn evaluate<'py>(
        &self,
        py: Python<'py>,
        input_fn: Py<PyAny>,
        steps: Option<u64>,
        name: Option<String>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (gate, raised) = (Gate::new(), FirstRaised::default());
        let (opened, input) = (self.opened(&gate), calls::input_fn(input_fn, raised.clone()));
        let work = move || match name {
            Some(name) => opened()?.evaluate_named(&name, input, steps),
            None => opened()?.evaluate(input, steps),
        };
        metrics(py, &raised.or(py, gate.enter(py, work))?)
    }

    /// Returns an iterator over the predictions of every batch; `carried` columns of the input come first.
    fn predict(&self, py: Python<'_>, input_fn: Py<PyAny>, carried: Vec<String>) -> PyResult<PyPredictions> {
        let (gate, raised) = (Gate::new(), FirstRaised::default());
        let (opened, input) = (self.opened(&gate), calls::input_fn(input_fn, raised.clone()));
        let work = move || Ok(opened()?.predict(input)?.carrying(carried));
        let predictions = raised.or(py, gate.enter(py, work))?;
        Ok(PyPredictions { predictions: Closable::new(predictions), gate })
    }

    /// Exports the newest checkpoint. Returns the folder.
    fn export_saved_model(
        &self,
        py: Python<'_>,
        base: PathBuf,
        raw: bool,
        assets_extra: Vec<(String, Vec<u8>)>,
    ) -> PyResult<PathBuf> {
        let gate = Gate::new();
        let opened = self.opened(&gate);
        gate.enter(py, move || opened()?.export_saved_model_with(base, serving_input(raw), None, &assets_extra))
    }

    /// Trains and evaluates as the task of this process.
    fn train_and_evaluate<'py>(
        &self,
        py: Python<'py>,
        stop: &PyStop,
        train: Train,
        evals: Vec<Eval>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (gate, raised) = (stop.0.clone(), FirstRaised::default());
        let evals: Vec<_> = evals.into_iter().map(|eval| eval.spec(&raised)).collect();
        let (train, model, config) = (train.spec(&raised).or_raise(py)?, self.model.clone(), self.config.clone());
        let inner = gate.clone();
        let work = move || train_and_evaluate(&model, train, evals, config.run_config(&inner)?);
        report(py, &raised.or(py, gate.enter_as(py, OnCtrlC::Finish, work))?)
    }

    /// Returns the name of the newest checkpoint.
    fn latest_checkpoint(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let gate = Gate::new();
        let opened = self.opened(&gate);
        gate.enter(py, move || opened()?.latest_checkpoint())
    }

    /// Returns the names and the shapes of the variables of the newest checkpoint.
    fn variables(&self, py: Python<'_>) -> PyResult<Vec<(String, Vec<usize>)>> {
        let gate = Gate::new();
        let opened = self.opened(&gate);
        gate.enter(py, move || {
            let checkpoint = newest(&opened()?)?;
            let tensors = checkpoint.index().tensors().iter();
            Ok(tensors.map(|(name, tensor)| (name.clone(), tensor.shape.dims().to_vec())).collect())
        })
    }

    /// Returns the values of a variable of the newest checkpoint, flat, and its shape.
    fn variable(&self, py: Python<'_>, name: String) -> PyResult<(crate::buffer::Buffer, Vec<usize>)> {
        let gate = Gate::new();
        let opened = self.opened(&gate);
        let (values, shape) = gate.enter(py, move || {
            let checkpoint = newest(&opened()?)?;
            let shape = checkpoint.tensors().info(&name)?.shape.dims().to_vec();
            Ok((checkpoint.tensors().read(&name)?.f32s()?, shape))
        })?;
        Ok((values.into(), shape))
    }
}

/// Opens the newest checkpoint.
fn newest(estimator: &Estimator<Canned>) -> Result<Checkpoint> {
    let name = estimator.latest_checkpoint()?.ok_or_else(|| {
        Error::new(Code::CheckpointMissing, "there is no trained model")
            .at(estimator.model_dir())
            .because("the directory has no checkpoint")
            .help("train the model first, or set the model_dir of an earlier training")
    })?;
    Checkpoint::open(&Dir::open(&estimator.model_dir())?, &name)
}

/// Returns the metrics of an evaluation, with `global_step`.
pub(crate) fn metrics<'py>(py: Python<'py>, found: &Evaluation) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, value) in &found.metrics {
        dict.set_item(name, value)?;
    }
    dict.set_item("global_step", found.global_step)?;
    Ok(dict)
}

/// Returns the outcome of `train_and_evaluate`.
pub(crate) fn report<'py>(py: Python<'py>, report: &Report) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("task", report.task.map(|task| task.to_string()))?;
    let training = report.training.as_ref();
    let of = |value: fn(&Training) -> u64| training.map(value);
    dict.set_item("global_step", of(|training| training.global_step))?;
    dict.set_item("steps", of(|training| training.steps))?;
    dict.set_item("loss", training.and_then(|training| training.loss))?;
    dict.set_item("seconds", training.map(|training| training.seconds))?;
    dict.set_item("metrics", report.evaluation.as_ref().map(|found| metrics(py, found)).transpose()?)?;
    let named = PyDict::new(py);
    for (name, found) in &report.named_evaluations {
        named.set_item(name, metrics(py, found)?)?;
    }
    dict.set_item("named_metrics", named)?;
    Ok(dict)
}

/// Predictions, batch by batch.
#[pyclass(frozen, weakref, module = "phalanx._phalanx", name = "Predictions")]
pub(crate) struct PyPredictions {
    predictions: Closable<Predictions<Canned>>,
    gate: Gate,
}

#[pymethods]
impl PyPredictions {
    /// Returns the predictions for the next batch; `None` at the end.
    fn next_batch<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyList>>> {
        let Some(predictions) = self.predictions.open() else { return Ok(None) };
        let next = move || predictions.lock().unwrap_or_else(PoisonError::into_inner).next().transpose();
        let Some(batch) = self.gate.enter(py, next)? else { return Ok(None) };
        PyList::new(py, columns_of(py, &batch)?).map(Some)
    }

    /// Ends the iteration and its threads, as Python's end does.
    fn close(&self) {
        self.predictions.close();
    }
}

/// Adds the classes to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyModel>()?;
    module.add_class::<PyStop>()?;
    module.add_class::<PyEstimator>()?;
    module.add_class::<PyPredictions>()?;
    estimator_config::register(module)
}
