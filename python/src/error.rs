//! Errors as Python's `phalanx.Error`, which keeps code, place, cause and help.

use phalanx_base::{Code, Error};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

/// Returns an error as a Python exception.
pub(crate) fn raised(py: Python<'_>, error: &Error) -> PyErr {
    let exception = class(py).and_then(|class| {
        let exit_code = error.exit_code();
        let parts = (error.what(), error.code().to_string(), error.place(), error.why(), error.next(), exit_code);
        class.call1((parts.0, parts.1, parts.2, parts.3, parts.4, parts.5, error.pointed_at()))
    });
    exception.map_or_else(|failed| failed, PyErr::from_value)
}

/// Turns the errors of a result into Python exceptions.
pub(crate) trait Raise<T> {
    /// Returns the value, or the error as a Python exception.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> Raise<T> for phalanx_base::Result<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| raised(py, &error))
    }
}

/// Returns a Python exception as an error that the other tasks of a job can read. A `phalanx.Error` keeps its parts.
pub(crate) fn caught(py: Python<'_>, exception: &PyErr) -> Error {
    let value = exception.value(py);
    let text = |name: &str| value.getattr(name).and_then(|part| part.extract::<String>()).ok();
    let known = class(py).is_ok_and(|class| exception.is_instance(py, class));
    let number = text("code").and_then(|code| code.strip_prefix("PX")?.parse().ok());
    match (known, number.and_then(Code::from_number), text("what")) {
        (true, Some(code), Some(what)) => {
            let error = Error::new(code, what);
            let error = text("place").map_or(error.clone(), |place| error.at(place));
            let error = text("cause").map_or(error.clone(), |cause| error.because(cause));
            text("help").map_or(error.clone(), |help| error.help(help))
        }
        _ => Error::new(Code::StepPanicked, format!("the program raised {exception}"))
            .help("its traceback is in the log of the task"),
    }
}

fn class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    CLASS.import(py, "phalanx._errors", "Error")
}
