//! `phalanx.jobs`: jobs described by a file.

use crate::data_columns::columns_of;
use crate::estimator::{metrics, report};
use crate::estimator_calls::{FirstRaised, PyStop};
use crate::gate::{Gate, OnCtrlC};
use crate::task::options;
use phalanx::coordinator::{ClusterResolver, TfConfigClusterResolver};
use phalanx::estimator::{RunConfig, ServingInput};
use phalanx_jobfile::{Job, Overrides, PredictOptions, TrainedJob};
use phalanx_train::logging;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;

/// Values that override those of a job's file.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Given {
    data_dir: Option<String>,
    model_dir: Option<String>,
    max_steps: Option<u64>,
    seed: Option<u64>,
    set: Vec<String>,
}

impl From<Given> for Overrides {
    fn from(given: Given) -> Self {
        let Given { data_dir, model_dir, max_steps, seed, set } = given;
        Self { data_dir, model_dir, max_steps, seed, set }
    }
}

/// Trains and evaluates a job as the task that `TF_CONFIG` names.
#[pyfunction]
fn train_job<'py>(py: Python<'py>, stop: &PyStop, path: PathBuf, given: Given) -> PyResult<Bound<'py, PyDict>> {
    let gate = stop.0.clone();
    let inner = gate.clone();
    let work = move || {
        let job = Job::read(path, given.into())?;
        let task = TfConfigClusterResolver.resolve()?;
        logging::log_warnings(&task);
        let options = options(&inner, "a job file")?;
        job.train_as(RunConfig::new().task(task).server_options(options))
    };
    let done = gate.enter_as(py, OnCtrlC::Finish, work)?;
    let dict = report(py, &done.report)?;
    dict.set_item("model_dir", done.model_dir)?;
    dict.set_item("steps_per_s", done.steps_per_s)?;
    Ok(dict)
}

/// Evaluates a run directory of a job, or an export, on `input` or on the job's own files.
#[pyfunction]
#[pyo3(signature = (path, files, given))]
fn evaluate_job(py: Python<'_>, path: PathBuf, files: Option<String>, given: Given) -> PyResult<Bound<'_, PyDict>> {
    let work = move || {
        let trained = TrainedJob::find(path)?;
        trained.job(given.into())?.evaluate(&trained, files.as_deref())
    };
    metrics(py, &Gate::new().enter(py, work)?)
}

/// Predicts every row of a file. Calls `each` with the columns of every batch.
#[pyfunction]
#[pyo3(signature = (path, files, carried, no_label, each))]
fn predict_job(
    py: Python<'_>,
    path: PathBuf,
    files: String,
    carried: Option<String>,
    no_label: bool,
    each: Py<PyAny>,
) -> PyResult<()> {
    let (gate, raised) = (Gate::new(), FirstRaised::default());
    let (first, interrupt) = (raised.clone(), gate.interrupt().clone());
    let work = move || {
        let trained = TrainedJob::find(path)?;
        let options = PredictOptions { id: carried, no_label };
        trained.job(Overrides::default())?.predict(&trained, &files, &options, |batch| {
            interrupt.error().map_or(Ok(()), Err)?;
            Python::attach(|py| {
                let call = || each.bind(py).call1((columns_of(py, batch)?,)).map(drop);
                call().map_err(|exception| first.keep(py, "the receiver of predictions", exception))
            })
        })
    };
    raised.or(py, gate.enter(py, work)).map(drop)
}

/// Exports the newest checkpoint of a job's run directory. Returns the folder.
#[pyfunction]
fn export_job(py: Python<'_>, model_dir: PathBuf, base: PathBuf, raw: bool) -> PyResult<PathBuf> {
    let work = move || {
        let job = TrainedJob::find(&model_dir)?.job(Overrides::default())?;
        let input = if raw { ServingInput::Raw } else { ServingInput::Examples };
        job.export(&model_dir, &base, input).map(|(folder, _)| folder)
    };
    Gate::new().enter(py, work)
}

/// Adds the functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(train_job, module)?)?;
    module.add_function(wrap_pyfunction!(evaluate_job, module)?)?;
    module.add_function(wrap_pyfunction!(predict_job, module)?)?;
    module.add_function(wrap_pyfunction!(export_job, module)?)
}
