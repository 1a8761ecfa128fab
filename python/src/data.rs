//! `phalanx.data`: datasets, their stages, and iteration.

use crate::arrow;
use crate::data_columns::{batch_of, columns_of, raised_in};
use crate::data_sources::{self, CsvText, Rows};
use crate::error::Raise;
use crate::gate::Gate;
use crate::process::Held;
use phalanx::data::{AUTOTUNE, Batch, Dataset, DatasetIter, InputContext, Parallel};
use phalanx_base::{Code, Error, Result};
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::sync::{Arc, Mutex, PoisonError};

/// A lazy sequence of rows or batches. `phalanx.data.Dataset` is its face.
#[pyclass(frozen, module = "phalanx._phalanx", name = "Dataset")]
pub(crate) struct PyDataset {
    pub(crate) data: Dataset,
    gate: Gate,
}

impl From<Dataset> for PyDataset {
    fn from(data: Dataset) -> Self {
        Self { data, gate: Gate::new() }
    }
}

/// Sources.
#[pymethods]
impl PyDataset {
    #[staticmethod]
    fn range(start: i64, stop: i64, step: i64) -> Self {
        Dataset::range(start, stop, step).into()
    }

    #[staticmethod]
    #[pyo3(signature = (columns, label, slices))]
    fn from_columns(columns: &Bound<'_, PyAny>, label: Option<&str>, slices: bool) -> PyResult<Self> {
        let batch = batch_of(columns, label)?.or_raise(columns.py())?;
        Ok(if slices { Dataset::from_tensor_slices(batch) } else { Dataset::from_tensors(batch) }.into())
    }

    /// The rows of the columns that an iterator of `make` yields.
    #[staticmethod]
    #[pyo3(signature = (make, label))]
    fn from_generator(make: Py<PyAny>, label: Option<String>) -> Self {
        let make = Arc::new(make);
        Dataset::from_fn(move || Generated::start(&make, label.clone())).into()
    }

    #[staticmethod]
    fn from_arrow(stream: &Bound<'_, PyAny>, rows: Rows) -> PyResult<Self> {
        let py = stream.py();
        let stream = arrow::import(stream)?;
        // A producer may compute its rows only now.
        let batches = Gate::new().enter(py, move || stream.batches())?;
        data_sources::arrow(batches, &rows).or_raise(py).map(Into::into)
    }

    #[staticmethod]
    fn csv(py: Python<'_>, files: Vec<String>, text: CsvText, rows: Rows) -> PyResult<Self> {
        data_sources::csv(files, &text, &rows).or_raise(py).map(Into::into)
    }

    #[staticmethod]
    fn parquet(py: Python<'_>, files: Vec<String>, rows: Rows) -> PyResult<Self> {
        data_sources::parquet(files, &rows).or_raise(py).map(Into::into)
    }

    #[staticmethod]
    #[pyo3(signature = (files, features, rows))]
    fn tfrecord(
        py: Python<'_>,
        files: Vec<String>,
        features: Option<Vec<(String, String, Option<usize>)>>,
        rows: Rows,
    ) -> PyResult<Self> {
        data_sources::tfrecord(files, features, &rows).or_raise(py).map(Into::into)
    }

    #[staticmethod]
    #[pyo3(signature = (files, label, select))]
    fn npz(files: Vec<String>, label: Option<String>, select: Option<Vec<String>>) -> Self {
        data_sources::npz(files, label, select).into()
    }

    #[staticmethod]
    fn text_lines(files: Vec<String>, skip_lines: u64) -> Self {
        data_sources::text_lines(files, skip_lines).into()
    }

    /// Calls a function with the columns of many rows at once, and takes the columns that it returns.
    #[pyo3(signature = (function, calls, deterministic))]
    fn map(&self, function: Py<PyAny>, calls: Option<i64>, deterministic: Option<bool>) -> Self {
        let parallel = Parallel { calls: threads(calls), deterministic };
        let map = move |batch: Batch| {
            let label = batch.schema().label().map(|at| Arc::clone(&batch.names()[at]));
            Python::attach(|py| {
                let call = || -> PyResult<Result<Batch>> {
                    let columns = function.bind(py).call1((columns_of(py, &batch)?,))?;
                    batch_of(&columns, None)
                };
                let made =
                    call().unwrap_or_else(|exception| Err(raised_in(py, "the function of a map", &exception)))?;
                match label {
                    Some(label) if made.schema().find(&label).is_some() => made.with_label(&label),
                    _ => Ok(made),
                }
            })
        };
        self.data.clone().map_batches(parallel, map).into()
    }

    /// Keeps the rows for which a function of the columns of many rows returns true.
    fn filter(&self, predicate: Py<PyAny>) -> Self {
        let keep = move |batch: &Batch| {
            Python::attach(|py| {
                let call = || predicate.bind(py).call1((columns_of(py, batch)?,))?.extract::<Vec<bool>>();
                call().map_err(|exception| raised_in(py, "the predicate of a filter", &exception))
            })
        };
        self.data.clone().filter_rows(keep).into()
    }

    #[pyo3(signature = (buffer_size, seed, reshuffle))]
    fn shuffle(&self, buffer_size: usize, seed: Option<u64>, reshuffle: bool) -> Self {
        self.data.clone().shuffle_with(buffer_size, seed, reshuffle).into()
    }

    #[pyo3(signature = (count))]
    fn repeat(&self, count: Option<u64>) -> Self {
        let data = self.data.clone();
        count.map_or_else(|| data.clone().repeat(), |count| data.clone().repeat_times(count)).into()
    }

    fn batch(&self, size: usize, drop_remainder: bool) -> Self {
        self.data.clone().batch_with(size, drop_remainder).into()
    }

    fn unbatch(&self) -> Self {
        self.data.clone().unbatch().into()
    }

    fn rebatch(&self, sizes: Vec<usize>) -> Self {
        self.data.clone().rebatch(sizes).into()
    }

    fn take(&self, count: u64) -> Self {
        self.data.clone().take(count).into()
    }

    fn skip(&self, count: u64) -> Self {
        self.data.clone().skip(count).into()
    }

    fn shard(&self, num_shards: usize, index: usize) -> Self {
        self.data.clone().shard((num_shards, index)).into()
    }

    /// The share of one of several input pipelines.
    fn shard_for(&self, pipelines: usize, pipeline: usize, replicas: usize) -> Self {
        let cx = InputContext {
            num_input_pipelines: pipelines,
            input_pipeline_id: pipeline,
            num_replicas_in_sync: replicas,
        };
        self.data.clone().shard(cx).into()
    }

    fn concatenate(&self, other: &Self) -> Self {
        self.data.clone().concatenate(other.data.clone()).into()
    }

    fn zip(&self, other: &Self) -> Self {
        self.data.clone().zip(other.data.clone()).into()
    }

    fn enumerate(&self, start: i64) -> Self {
        self.data.clone().enumerate(start).into()
    }

    #[pyo3(signature = (folder))]
    fn cache(&self, folder: Option<String>) -> Self {
        let data = self.data.clone();
        match folder {
            Some(folder) => data.cache_in(folder).into(),
            None => data.cache().into(),
        }
    }

    fn prefetch(&self, buffer_size: i64) -> Self {
        self.data.clone().prefetch(threads(Some(buffer_size))).into()
    }

    fn label(&self, name: String) -> Self {
        self.data.clone().map_batches(Parallel::default(), move |batch| batch.with_label(&name)).into()
    }

    fn select(&self, names: Vec<String>) -> Self {
        let select = move |batch: Batch| batch.select(&names.iter().map(String::as_str).collect::<Vec<_>>());
        self.data.clone().map_batches(Parallel::default(), select).into()
    }

    /// Starts a pass.
    fn iter(&self, py: Python<'_>) -> PyResult<PyDatasetIter> {
        let data = self.data.clone();
        let iter = self.gate.enter(py, move || data.iter())?;
        Ok(PyDatasetIter { iter: Closable::new(iter), gate: self.gate.clone() })
    }

    #[getter]
    fn is_batched(&self) -> bool {
        self.data.is_batched()
    }

    fn describe(&self) -> String {
        self.data.describe()
    }
}

/// A number of threads or of elements, as TensorFlow gives it: -1 is `AUTOTUNE`.
fn threads(count: Option<i64>) -> usize {
    count.map_or(0, |count| usize::try_from(count).unwrap_or(AUTOTUNE))
}

/// The batches that a Python iterator yields.
struct Generated {
    items: Result<Option<Py<PyAny>>>,
    label: Option<String>,
}

impl Generated {
    fn start(make: &Py<PyAny>, label: Option<String>) -> Self {
        let start = |py: Python<'_>| make.bind(py).call0()?.try_iter().map(|items| items.into_any().unbind());
        let items = Python::attach(|py| {
            start(py).map(Some).map_err(|exception| raised_in(py, "the generator of a dataset", &exception))
        });
        Self { items, label }
    }
}

impl Iterator for Generated {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Result<Batch>> {
        let items = match std::mem::replace(&mut self.items, Ok(None)) {
            Err(error) => return Some(Err(error)),
            Ok(items) => items?,
        };
        Python::attach(|py| {
            let next = || -> PyResult<Option<Result<Batch>>> {
                let Some(columns) = items.bind(py).try_iter()?.next() else { return Ok(None) };
                batch_of(&columns?, self.label.as_deref()).map(Some)
            };
            let batch =
                next().unwrap_or_else(|exception| Some(Err(raised_in(py, "the generator of a dataset", &exception))));
            if matches!(batch, Some(Ok(_))) {
                self.items = Ok(Some(items.clone_ref(py)));
            }
            batch
        })
    }
}

/// One pass over a dataset.
#[pyclass(frozen, weakref, module = "phalanx._phalanx", name = "DatasetIterator")]
pub(crate) struct PyDatasetIter {
    iter: Closable<DatasetIter>,
    gate: Gate,
}

#[pymethods]
impl PyDatasetIter {
    /// Returns the columns of up to `max_rows` rows, or of the next batch; `None` at the end.
    fn next_chunk<'py>(&self, py: Python<'py>, max_rows: usize) -> PyResult<Option<Bound<'py, PyList>>> {
        let Some(iter) = self.iter.open() else { return Ok(None) };
        let next = move || iter.lock().unwrap_or_else(PoisonError::into_inner).next_chunk(max_rows);
        let Some(batch) = self.gate.enter(py, next)? else { return Ok(None) };
        PyList::new(py, columns_of(py, &batch)?).map(Some)
    }

    /// Ends the pass and its threads. Python's end does so, because threads that wait for the GIL do not outlive it.
    fn close(&self) {
        self.iter.close();
    }
}

/// Something whose threads end when it is closed, or dropped.
pub(crate) struct Closable<T: Send>(Mutex<Option<Held<Arc<Mutex<T>>>>>);

impl<T: Send> Closable<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(Some(Held::new(Arc::new(Mutex::new(value))))))
    }

    /// Returns it, unless it was closed.
    pub(crate) fn open(&self) -> Option<Arc<Mutex<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_deref().cloned()
    }

    pub(crate) fn close(&self) {
        let value = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(value);
    }
}

/// Returns the dataset of a `phalanx.data.Dataset`.
pub(crate) fn dataset_of(object: &Bound<'_, PyAny>) -> PyResult<Result<Dataset>> {
    match object.getattr("_native").and_then(|native| Ok(native.cast_into::<PyDataset>()?)) {
        Ok(native) => Ok(Ok(native.get().data.clone())),
        Err(_) => Ok(Err(Error::new(Code::BadSetting, "an input function did not return a dataset")
            .because(format!("it returned {}", object.get_type().name()?))
            .help("return a phalanx.data.Dataset, or features and labels"))),
    }
}

/// Adds the classes to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyDataset>()?;
    module.add_class::<PyDatasetIter>()
}
