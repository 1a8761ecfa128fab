//! Functions and hooks of the user's program that a training calls.

use crate::data::dataset_of;
use crate::data_columns::raised_in;
use crate::gate::Gate;
use phalanx::data::{Dataset, InputContext};
use phalanx::estimator::{Control, Hook};
use phalanx::prelude::Step;
use phalanx_base::{Error, Result};
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, PoisonError};

/// Asks the task of one call to save and end, as SIGTERM does.
#[pyclass(frozen, module = "phalanx._phalanx", name = "Stop")]
pub(crate) struct PyStop(pub(crate) Gate);

#[pymethods]
impl PyStop {
    #[new]
    fn new() -> Self {
        Self(Gate::new())
    }

    fn terminate(&self) {
        self.0.interrupt().terminate();
    }
}

/// The first exception that a function of the program raised: it says more than the error that it becomes.
#[derive(Clone, Default)]
pub(crate) struct FirstRaised(Arc<Mutex<Option<PyErr>>>);

impl FirstRaised {
    /// Keeps an exception and returns it as an error.
    pub(crate) fn keep(&self, py: Python<'_>, function: &str, exception: PyErr) -> Error {
        let error = raised_in(py, function, &exception);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(exception);
        error
    }

    /// Returns what to raise for the outcome of a call: the program's own exception, if that ended it.
    pub(crate) fn or<T>(&self, py: Python<'_>, done: PyResult<T>) -> PyResult<T> {
        let raised = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (done, raised) {
            (Err(error), Some(raised)) if !error.is_instance_of::<pyo3::exceptions::PyKeyboardInterrupt>(py) => {
                Err(raised)
            }
            (done, _) => done,
        }
    }
}

/// Returns an input function that calls `function` with the number of input pipelines, the one of this task, and the number of
/// replicas.
pub(crate) fn input_fn(
    function: Py<PyAny>,
    raised: FirstRaised,
) -> impl Fn(InputContext) -> Dataset + Send + Sync + 'static {
    move |cx: InputContext| {
        Python::attach(|py| {
            let arguments = (cx.num_input_pipelines, cx.input_pipeline_id, cx.num_replicas_in_sync);
            let made = function.bind(py).call1(arguments).and_then(|made| dataset_of(&made));
            let made = made.unwrap_or_else(|exception| Err(raised.keep(py, "the input function", exception)));
            made.unwrap_or_else(Dataset::broken)
        })
    }
}

/// A hook in Python: an object with `_begin`, `_after_step` and `_end`.
pub(crate) struct PyHook {
    hook: Py<PyAny>,
    raised: FirstRaised,
}

impl PyHook {
    pub(crate) fn new(hook: Py<PyAny>, raised: FirstRaised) -> Self {
        Self { hook, raised }
    }

    fn call<T>(&self, call: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>) -> Result<T> {
        Python::attach(|py| call(self.hook.bind(py)).map_err(|exception| self.raised.keep(py, "a hook", exception)))
    }
}

impl Hook for PyHook {
    fn begin(&mut self, global_step: u64) -> Result<()> {
        self.call(|hook| hook.call_method1("_begin", (global_step,)).map(drop))
    }

    fn after_step(&mut self, step: &Step) -> Result<Control> {
        let stop: bool =
            self.call(|hook| hook.call_method1("_after_step", (step.global_step, step.loss))?.extract())?;
        Ok(if stop { Control::Stop } else { Control::Continue })
    }

    fn end(&mut self, global_step: u64) -> Result<()> {
        self.call(|hook| hook.call_method1("_end", (global_step,)).map(drop))
    }
}
