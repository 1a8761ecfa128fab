//! Metrics with Keras' names and values.

use crate::error::Raise;
use phalanx_base::Result;
use phalanx_nn::metrics::{Accuracy, BinaryAccuracy, Metric, Values, parse};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A value that is accumulated over batches. The classes of `phalanx.metrics` are its faces.
#[pyclass(frozen, module = "phalanx._phalanx", name = "Metric")]
pub(crate) struct PyMetric(Mutex<Box<dyn Metric>>);

/// Numbers of examples, and how many each has.
type Rows = (PyBuffer<f32>, usize);

#[pymethods]
impl PyMetric {
    /// Returns the metric of this class of Keras; `threshold` is that of a `BinaryAccuracy`.
    #[new]
    #[pyo3(signature = (kind, threshold=None))]
    fn new(py: Python<'_>, kind: &str, threshold: Option<f32>) -> PyResult<Self> {
        made(kind, threshold).map(|metric| Self(Mutex::new(metric))).or_raise(py)
    }

    /// Adds a batch.
    #[pyo3(signature = (labels, predictions, weights))]
    fn update(&self, py: Python<'_>, labels: Rows, predictions: Rows, weights: Option<PyBuffer<f32>>) -> PyResult<()> {
        let weights = weights.map(|weights| weights.to_vec(py)).transpose()?;
        let (of_labels, of_predictions) = (labels.0.to_vec(py)?, predictions.0.to_vec(py)?);
        let label = Values::rows(&of_labels, labels.1);
        let prediction = Values::rows(&of_predictions, predictions.1);
        self.lock().update(label, prediction, weights.as_deref()).or_raise(py)
    }

    /// Returns the value so far.
    fn result(&self) -> f64 {
        self.lock().result()
    }

    /// Clears the state.
    fn reset(&self) {
        self.lock().reset();
    }

    /// Returns the sums behind the value.
    fn words(&self) -> Vec<f64> {
        self.lock().to_words()
    }

    /// Replaces the sums.
    fn load_words(&self, py: Python<'_>, words: Vec<f64>) -> PyResult<()> {
        self.lock().load_words(&words).or_raise(py)
    }

    /// Adds the sums of another metric of the same kind.
    fn merge(&self, py: Python<'_>, words: Vec<f64>) -> PyResult<()> {
        self.lock().merge(&words).or_raise(py)
    }
}

impl PyMetric {
    fn lock(&self) -> MutexGuard<'_, Box<dyn Metric>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn made(kind: &str, threshold: Option<f32>) -> Result<Box<dyn Metric>> {
    Ok(match (kind, threshold) {
        ("Accuracy", _) => Box::new(Accuracy::new()),
        ("BinaryAccuracy", Some(threshold)) => Box::new(BinaryAccuracy::new().threshold(threshold)),
        _ => parse(kind, None, 1)?,
    })
}

/// Adds the class to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyMetric>()
}
