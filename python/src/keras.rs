//! `phalanx.keras`: models of layers, compiled and fitted under a strategy.

use crate::data::dataset_of;
use crate::data_columns::{batch_of, columns_of};
use crate::data_sources::no_such;
use crate::error::Raise;
use crate::estimator_calls::{FirstRaised, PyStop};
use crate::gate::{Gate, OnCtrlC};
use crate::keras_layers::ModelOf;
use crate::optimizer::Optimizer;
use crate::process::Held;
use crate::task::options;
use phalanx::Strategy;
use phalanx::callbacks::{BackupAndRestore, Callback, FitContext, ModelCheckpoint, TensorBoard};
use phalanx::coordinator::{ClusterResolver, TfConfigClusterResolver};
use phalanx::data::{Batch, Dataset};
use phalanx::fit::{Compile, Compiled, Data, Fit, Logs, Verbose};
use phalanx::model::Model;
use phalanx_base::{Code, Error, Result};
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

/// Losses and metrics by name.
type Named = Vec<(String, f64)>;

/// A model with an optimizer, a loss and metrics, under a strategy. `phalanx.keras.Sequential` is its face.
#[pyclass(frozen, module = "phalanx._phalanx", name = "Compiled")]
pub(crate) struct PyCompiled {
    model: Held<Arc<Mutex<Compiled<Model>>>>,
    gate: Gate,
}

/// What `compile` is told.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Compiling {
    optimizer: Optimizer,
    loss: String,
    metrics: Vec<String>,
    strategy: String,
    seed: u64,
    program: String,
}

/// What `fit` and `evaluate` are told.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Fitting {
    epochs: usize,
    initial_epoch: usize,
    batch_size: Option<usize>,
    steps_per_epoch: Option<u64>,
    validation_split: f64,
    validation_steps: Option<u64>,
    shuffle: bool,
    verbose: bool,
}

impl Fitting {
    fn fit(&self) -> Fit {
        let mut fit = Fit::epochs(self.epochs)
            .initial_epoch(self.initial_epoch)
            .validation_split(self.validation_split)
            .shuffle(self.shuffle)
            .verbose(if self.verbose { Verbose::default() } else { Verbose::Silent });
        if let Some(rows) = self.batch_size {
            fit = fit.batch_size(rows);
        }
        if let Some(steps) = self.steps_per_epoch {
            fit = fit.steps_per_epoch(steps);
        }
        if let Some(steps) = self.validation_steps {
            fit = fit.validation_steps(steps);
        }
        fit
    }
}

/// Data as Python hands it over: a dataset, or columns in memory.
enum Given {
    Batches(Dataset),
    Rows(Batch),
}

impl Given {
    /// Reads a dataset, or a pair of columns and the name of the label.
    fn read(data: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = data.py();
        if data.hasattr("_native")? {
            return dataset_of(data)?.or_raise(py).map(Self::Batches);
        }
        let (columns, label): (Bound<'_, PyAny>, Option<String>) = data.extract()?;
        batch_of(&columns, label.as_deref())?.or_raise(py).map(Self::Rows)
    }

    fn data(self) -> Data {
        match self {
            Self::Batches(dataset) => dataset.into(),
            Self::Rows(batch) => batch.into(),
        }
    }
}

#[pymethods]
impl PyCompiled {
    #[new]
    fn new(py: Python<'_>, stop: &PyStop, model: ModelOf, settings: Compiling) -> PyResult<Self> {
        let gate = stop.0.clone();
        let inner = gate.clone();
        let work = move || {
            let Compiling { optimizer, loss, metrics, strategy, seed, program } = settings;
            let options = options(&inner, &program)?;
            let strategy = Strategy::named_for(&strategy, &TfConfigClusterResolver.resolve()?, &options)?;
            let replicated = strategy.scope(|| model.build(seed))?;
            replicated.compile(optimizer.inner(), loss.as_str(), metrics.iter().map(String::as_str))
        };
        let model = Held::new(Arc::new(Mutex::new(gate.enter_as(py, OnCtrlC::Finish, work)?)));
        Ok(Self { model, gate })
    }

    /// Trains. Returns the epochs and the logs of each.
    #[pyo3(signature = (data, validation, settings, callbacks))]
    fn fit(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        validation: Option<&Bound<'_, PyAny>>,
        settings: Fitting,
        callbacks: Vec<CallbackOf>,
    ) -> PyResult<Vec<(usize, Named)>> {
        let (data, validation) = (Given::read(data)?, validation.map(Given::read).transpose()?);
        let (model, raised) = (Arc::clone(&self.model), FirstRaised::default());
        let first = raised.clone();
        let work = move || {
            let mut fit = settings.fit();
            if let Some(validation) = validation {
                fit = fit.validation(validation.data());
            }
            for callback in callbacks {
                fit = callback.add_to(fit, &first)?;
            }
            let history = locked(&model)?.fit(data.data(), fit)?;
            Ok(history.epochs().iter().copied().zip(history.logs().iter().map(named)).collect())
        };
        raised.or(py, self.begun().enter_as(py, OnCtrlC::Finish, work))
    }

    /// Returns loss and metrics.
    fn evaluate(&self, py: Python<'_>, data: &Bound<'_, PyAny>, settings: Fitting) -> PyResult<Named> {
        let (data, model) = (Given::read(data)?, Arc::clone(&self.model));
        let work = move || locked(&model)?.evaluate(data.data(), settings.fit()).map(|logs| named(&logs));
        self.begun().enter_as(py, OnCtrlC::Finish, work)
    }

    /// Returns the outputs of every row as a column.
    fn predict<'py>(&self, py: Python<'py>, data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let (data, model) = (Given::read(data)?, Arc::clone(&self.model));
        let work = move || {
            let outputs = locked(&model)?.predict(data.data())?;
            Batch::new([("outputs", outputs)])
        };
        let outputs = self.begun().enter_as(py, OnCtrlC::Finish, work)?;
        PyList::new(py, columns_of(py, &outputs)?)
    }

    /// Returns Keras' table of the layers.
    fn summary(&self, py: Python<'_>) -> PyResult<String> {
        locked(&self.model).map(|model| model.module().summary(None)).or_raise(py)
    }

    /// Writes the weights to a file: a checkpoint of TensorFlow, or safetensors.
    fn save_weights(&self, py: Python<'_>, location: String) -> PyResult<()> {
        let model = Arc::clone(&self.model);
        let work = move || locked(&model)?.save_weights(&location);
        self.gate.enter_as(py, OnCtrlC::Finish, work)
    }

    /// Reads what `save_weights` wrote.
    fn load_weights(&self, py: Python<'_>, location: String) -> PyResult<()> {
        let model = Arc::clone(&self.model);
        let work = move || locked(&model)?.load_weights(&location);
        self.gate.enter_as(py, OnCtrlC::Finish, work)
    }

    /// Writes a SavedModel into a new folder.
    fn export_saved_model(&self, py: Python<'_>, folder: PathBuf) -> PyResult<()> {
        let model = Arc::clone(&self.model);
        let work = move || locked(&model)?.export_saved_model(folder, None);
        self.gate.enter_as(py, OnCtrlC::Finish, work)
    }
}

impl PyCompiled {
    /// Returns the gate for another call: one that Ctrl-C ended does not end this one.
    fn begun(&self) -> &Gate {
        self.gate.interrupt().clear();
        &self.gate
    }
}

/// Returns the model, unless another call uses it: a callback would wait for the training that waits for it.
fn locked(model: &Mutex<Compiled<Model>>) -> Result<MutexGuard<'_, Compiled<Model>>> {
    match model.try_lock() {
        Ok(model) => Ok(model),
        Err(TryLockError::Poisoned(model)) => Ok(model.into_inner()),
        Err(TryLockError::WouldBlock) => Err(Error::new(Code::BadSetting, "the model is in use by another call")
            .help("wait until fit has ended; ModelCheckpoint saves weights in between")),
    }
}

fn named(logs: &Logs) -> Named {
    logs.iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A callback of `fit`.
#[derive(FromPyObject)]
enum CallbackOf {
    /// One of Rust's: its name in Keras, its place, and what it monitors.
    Native(String, String, Option<String>),
    Program(Py<PyAny>),
}

impl CallbackOf {
    fn add_to(self, fit: Fit, raised: &FirstRaised) -> Result<Fit> {
        let (kind, location, monitor) = match self {
            Self::Program(callback) => return Ok(fit.callback(PyCallback { callback, raised: raised.clone() })),
            Self::Native(kind, location, monitor) => (kind, location, monitor),
        };
        Ok(match (kind.as_str(), monitor) {
            ("ModelCheckpoint", None) => fit.callback(ModelCheckpoint::new(location)),
            ("ModelCheckpoint", Some(best)) => {
                fit.callback(ModelCheckpoint::new(location).monitor(&best).save_best_only())
            }
            ("BackupAndRestore", _) => fit.callback(BackupAndRestore::new(location)),
            ("TensorBoard", _) => fit.callback(TensorBoard::new(location)),
            (other, _) => {
                return Err(no_such("a callback", other, &["ModelCheckpoint", "BackupAndRestore", "TensorBoard"]));
            }
        })
    }
}

/// A callback in Python: an object with `_on`.
struct PyCallback {
    callback: Py<PyAny>,
    raised: FirstRaised,
}

impl PyCallback {
    /// Tells the callback what happens, and does what it asks for.
    fn on(&self, cx: &mut FitContext<'_>, what: &str, at: u64, logs: Option<&Logs>) -> Result<()> {
        let rate = cx.learning_rate();
        let (stops, wanted): (bool, f32) = Python::attach(|py| {
            let call = || self.callback.bind(py).call_method1("_on", (what, at, logs.map(named), rate))?.extract();
            call().map_err(|exception| self.raised.keep(py, "a callback", exception))
        })?;
        if stops {
            cx.stop_training();
        }
        if wanted == rate { Ok(()) } else { cx.set_learning_rate(wanted) }
    }
}

impl Callback for PyCallback {
    fn on_train_begin(&mut self, cx: &mut FitContext<'_>) -> Result<()> {
        self.on(cx, "train_begin", 0, None)
    }

    fn on_train_end(&mut self, cx: &mut FitContext<'_>, logs: &Logs) -> Result<()> {
        self.on(cx, "train_end", 0, Some(logs))
    }

    fn on_epoch_begin(&mut self, cx: &mut FitContext<'_>, epoch: usize) -> Result<()> {
        self.on(cx, "epoch_begin", epoch as u64, None)
    }

    fn on_epoch_end(&mut self, cx: &mut FitContext<'_>, epoch: usize, logs: &mut Logs) -> Result<()> {
        self.on(cx, "epoch_end", epoch as u64, Some(logs))
    }

    fn on_train_batch_end(&mut self, cx: &mut FitContext<'_>, batch: u64, logs: &Logs) -> Result<()> {
        self.on(cx, "train_batch_end", batch, Some(logs))
    }
}

/// Adds the class to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyCompiled>()
}
