//! A step of a coordinated job, which the program computes.

use super::thread::Event;
use crate::buffer::Buffer;
use crate::error::{Raise, caught, raised};
use crate::gate::{Gate, OnCtrlC};
use crate::module::Variables;
use crate::session::{Exported, GivenGradients, exported, values};
use phalanx::coordinator::{StepContext, StepFunctions, StepHandle};
use phalanx_base::{Code, Error, Result};
use phalanx_nn::HostBuffer;
use phalanx_train::{RowReader, RowValues, StepGradients, TableId};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

/// The one step that a program of Python registers: its argument has the name of the program's own function.
pub(super) struct Steps {
    pub(super) functions: StepFunctions<Variables>,
    pub(super) handle: StepHandle<Vec<u8>, Vec<u8>>,
}

impl Steps {
    pub(super) fn new(events: &Sender<Event>) -> Self {
        let mut functions = StepFunctions::new();
        let events = events.clone();
        let handle =
            functions.register_as("function of Python", move |cx, request: Vec<u8>| compute(cx, request, &events));
        Self { functions, handle }
    }
}

/// What the program says while it computes a step.
enum StepAsk {
    Rows(TableId, Vec<i64>),
    /// The result, and the gradients if the step changes the model.
    End(Vec<u8>, Option<StepGradients>),
    Fail(Error),
}

/// The unique ids of a look-up, and their rows.
type Read = Result<(Vec<i64>, RowValues)>;

/// A step on its way to the program.
pub(super) struct StepEvent {
    request: Vec<u8>,
    id: u64,
    task: String,
    pipeline: (usize, usize),
    values: Vec<HostBuffer>,
    asks: Sender<StepAsk>,
    rows: Receiver<Read>,
}

fn compute(cx: &mut StepContext<'_, Variables>, request: Vec<u8>, events: &Sender<Event>) -> Result<Vec<u8>> {
    let (id, task, input) = (cx.id(), cx.task().to_string(), cx.input_context());
    let pipeline = (input.num_input_pipelines, input.input_pipeline_id);
    let mut result = Vec::new();
    cx.step_with_gradients(|model, registry, reader| {
        let (asks, asked) = channel();
        let (row_answers, rows) = channel();
        let values = values(registry, model)?;
        let event = StepEvent { request, id, task, pipeline, values, asks, rows };
        events.send(Event::Step(event)).map_err(|_| left())?;
        loop {
            match asked.recv().map_err(|_| left())? {
                StepAsk::Rows(table, ids) => {
                    let _left = row_answers.send(read(reader.as_ref(), table, &ids));
                }
                StepAsk::End(made, gradients) => {
                    result = made;
                    return Ok(gradients);
                }
                StepAsk::Fail(error) => return Err(error),
            }
        }
    })?;
    Ok(result)
}

fn read(reader: Option<&RowReader>, table: TableId, ids: &[i64]) -> Read {
    let reader = reader.ok_or_else(|| Error::new(Code::NoSuchVariable, "the model has no table"))?;
    reader.read(table, ids)
}

fn left() -> Error {
    Error::new(Code::Cancelled, "the program left a step before it had ended")
}

/// A step that this task is to compute.
#[pyclass(frozen, module = "phalanx._phalanx")]
pub(crate) struct StepRequest {
    gate: Gate,
    tables: Vec<TableId>,
    request: Vec<u8>,
    id: u64,
    task: String,
    pipeline: (usize, usize),
    values: Mutex<Vec<HostBuffer>>,
    asks: Sender<StepAsk>,
    rows: Mutex<Receiver<Read>>,
}

impl StepRequest {
    pub(super) fn new(gate: &Gate, tables: &[TableId], event: StepEvent) -> Self {
        let StepEvent { request, id, task, pipeline, values, asks, rows } = event;
        let (values, rows) = (Mutex::new(values), Mutex::new(rows));
        Self { gate: gate.clone(), tables: tables.to_vec(), request, id, task, pipeline, values, asks, rows }
    }
}

#[pymethods]
impl StepRequest {
    /// What the step was scheduled with.
    #[getter]
    fn request(&self) -> &[u8] {
        &self.request
    }

    /// The number of the step; the same when it runs again.
    #[getter]
    fn id(&self) -> u64 {
        self.id
    }

    /// The worker that computes it.
    #[getter]
    fn task(&self) -> &str {
        &self.task
    }

    /// How many workers share the input, and which of them this is.
    #[getter]
    fn input_pipeline(&self) -> (usize, usize) {
        self.pipeline
    }

    /// Takes the newest values of the variables.
    fn take_values(&self) -> Vec<Buffer> {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *values).into_iter().map(Buffer::from).collect()
    }

    /// Reads rows of a table: the unique ids, their rows, and for each id the index of its row.
    fn rows(&self, py: Python<'_>, table: usize, ids: PyBuffer<i64>) -> PyResult<(Buffer, Buffer, Buffer)> {
        let known = self.tables.get(table).copied();
        let missing = || Error::new(Code::NoSuchVariable, format!("the model has no table number {table}"));
        self.ask(py, StepAsk::Rows(known.ok_or_else(missing).or_raise(py)?, ids.to_vec(py)?))?;
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let (unique, rows) = self.gate.wait(py, OnCtrlC::Leave, &mut rows)?.or_raise(py)?;
        let (rows, positions): Exported = exported(rows);
        Ok((Buffer::from(unique), rows, positions))
    }

    /// Ends the step with its result, and its gradients if it changes the model.
    #[pyo3(signature = (result, gradients))]
    fn end(&self, py: Python<'_>, result: Vec<u8>, gradients: Option<GivenGradients>) -> PyResult<()> {
        let gradients = gradients.map(|given| given.read(py, &self.tables)).transpose()?;
        self.ask(py, StepAsk::End(result, gradients))
    }

    /// Ends the step with an exception.
    fn fail(&self, py: Python<'_>, exception: &Bound<'_, PyBaseException>) -> PyResult<()> {
        self.ask(py, StepAsk::Fail(caught(py, &PyErr::from_value(exception.clone().into_any()))))
    }
}

impl StepRequest {
    fn ask(&self, py: Python<'_>, ask: StepAsk) -> PyResult<()> {
        self.gate.check_process(py)?;
        let over = |_| raised(py, &Error::new(Code::JobFailed, "the job ended before this step did").relayed());
        self.asks.send(ask).map_err(over)
    }
}
