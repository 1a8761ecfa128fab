//! A coordinated job: steps of Python that the chief schedules on whichever worker is free.
//!
//! Every task makes the same calls (decision 028). The program waits for events in one place: a step that it is to compute, or
//! the answer to what it asked for.

mod step;
mod thread;

use crate::buffer::Buffer;
use crate::error::{Raise, raised};
use crate::gate::{Gate, OnCtrlC, caught_panic};
use crate::session::{Settings, Table, Variable, exported, table, variables};
use crate::task::{Server, local_options};
use phalanx_base::{Code, Context, Error, Result};
use phalanx_cluster::TaskConfig;
use phalanx_ps::Partitioner;
use phalanx_train::{Strategy, TableId};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use step::StepRequest;
use thread::{Ask, Event};

/// How long the end of this task's part of a job may take.
const END: Duration = Duration::from_secs(60);

/// The coordinator of a job, in any of its tasks: what `phalanx.torch.ClusterCoordinator` is written on.
#[pyclass(frozen, module = "phalanx._phalanx")]
pub(crate) struct Coordinator {
    gate: Gate,
    tables: Vec<TableId>,
    is_chief: bool,
    asks: Mutex<Option<Sender<Ask>>>,
    events: Mutex<Receiver<Event>>,
}

/// A partitioner: its name and its sizes.
type PartitionerOf = (String, Vec<usize>);

/// A result of a step: its number, and its bytes or its error.
type StepResult<'py> = (u64, Option<Bound<'py, PyBytes>>, Option<Py<PyAny>>);

#[pymethods]
impl Coordinator {
    /// Connects the variables of a model to the job of `server`; without one, to a job of this process alone.
    #[new]
    fn new(
        py: Python<'_>,
        server: Option<&Server>,
        values: Vec<Variable>,
        tables: Vec<Table>,
        settings: Settings,
        partitioner: PartitionerOf,
    ) -> PyResult<Self> {
        let gate = server.map_or_else(Gate::new, |server| server.gate().clone());
        gate.check_process(py)?;
        let values = variables(py, values)?;
        let task = server.map(|server| server.inner().clone());
        let is_chief = task.as_ref().is_none_or(phalanx_train::Server::is_chief);
        let interrupt = gate.interrupt().clone();
        let alone = local_options(&gate, "coordinated").or_raise(py)?;
        let strategy_options = settings.strategy(partitioner_of(&partitioner).or_raise(py)?);
        let (asks, asked) = channel();
        let (telling, events) = channel();
        let (ready, mut prepared) = channel();
        let serve = move || {
            let failed = telling.clone();
            let served = caught_panic(|| {
                let strategy = match &task {
                    Some(server) => Strategy::parameter_server_on(server, strategy_options),
                    None => Strategy::parameter_server(&TaskConfig::local(), &alone, strategy_options),
                };
                let connected = strategy.and_then(|strategy| {
                    let (supervisor, tables) = settings.coordinated(&strategy, tables)?;
                    Ok((strategy.coordinated(values, supervisor)?, tables))
                });
                let (job, tables) = match connected {
                    Ok(connected) => connected,
                    Err(error) => {
                        let _gone = ready.send(Err(error));
                        return Ok(());
                    }
                };
                let _gone = ready.send(Ok(tables));
                thread::serve(job, &asked, &telling, &interrupt);
                Ok(())
            });
            if let Err(error) = served {
                let _gone = failed.send(Event::Failed(error));
            }
        };
        let named = std::thread::Builder::new().name("phalanx-coordinator".into());
        named.spawn(serve).context(Code::Internal, "a coordinator's thread cannot be started").or_raise(py)?;
        let tables = gate.wait(py, OnCtrlC::Leave, &mut prepared)?.or_raise(py)?;
        Ok(Self { gate, tables, is_chief, asks: Mutex::new(Some(asks)), events: Mutex::new(events) })
    }

    /// Whether this task is the chief, whose program decides.
    #[getter]
    fn is_chief(&self) -> bool {
        self.is_chief
    }

    /// Asks for a call.
    fn call(&self, py: Python<'_>) -> PyResult<()> {
        self.ask(py, Ask::Call)
    }

    /// Asks for a step, whose result will have this number.
    fn schedule(&self, py: Python<'_>, number: u64, request: Vec<u8>) -> PyResult<()> {
        self.ask(py, Ask::Schedule(number, request))
    }

    /// Asks for the results that are there, and the global step if these are all.
    fn collect(&self, py: Python<'_>) -> PyResult<()> {
        self.ask(py, Ask::Collect)
    }

    /// Asks for all results.
    fn join(&self, py: Python<'_>) -> PyResult<()> {
        self.ask(py, Ask::Join)
    }

    /// Asks for the variables and their shards.
    fn variables(&self, py: Python<'_>) -> PyResult<()> {
        self.ask(py, Ask::Variables)
    }

    /// Asks for the newest values of the variables.
    fn values(&self, py: Python<'_>) -> PyResult<()> {
        self.ask(py, Ask::Values)
    }

    /// Asks for a checkpoint.
    fn save(&self, py: Python<'_>) -> PyResult<()> {
        self.ask(py, Ask::Save)
    }

    /// Ends the call with its outcome.
    fn end(&self, py: Python<'_>, outcome: Vec<u8>) -> PyResult<()> {
        self.ask(py, Ask::End(outcome))
    }

    /// Asks for rows of a table.
    fn rows(&self, py: Python<'_>, index: usize, ids: PyBuffer<i64>) -> PyResult<()> {
        self.ask(py, Ask::Rows(table(py, &self.tables, index)?, ids.to_vec(py)?))
    }

    /// Waits for the next event: its name, and what it brings.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<(&'static str, Bound<'py, PyAny>)> {
        let mut events = self.events.try_lock().map_err(|_| raised(py, &busy()))?;
        let event = self.gate.wait(py, OnCtrlC::Leave, &mut events)?;
        drop(events);
        Ok(match event {
            Event::Step(step) => ("step", Bound::new(py, StepRequest::new(&self.gate, &self.tables, step))?.into_any()),
            Event::Begun => ("begun", py.None().into_bound(py)),
            Event::Outcome(outcome, values) => {
                let values: Vec<Buffer> = values.into_iter().map(Buffer::from).collect();
                ("outcome", (PyBytes::new(py, &outcome), values).into_pyobject(py)?.into_any())
            }
            Event::Values(values) => {
                let values: Vec<Buffer> = values.into_iter().map(Buffer::from).collect();
                ("values", values.into_pyobject(py)?.into_any())
            }
            Event::Finished(results, global_step) => {
                let results = results.into_iter().map(|(number, result)| result_of(py, number, result));
                let results: Vec<StepResult<'py>> = results.collect();
                ("finished", (results, global_step).into_pyobject(py)?.into_any())
            }
            Event::Variables(variables) => {
                let shard = |shard: &phalanx::coordinator::VariableShard| {
                    (shard.name.clone(), shard.shape.dims().to_vec(), shard.device())
                };
                let variables =
                    variables.iter().map(|one| (one.name.clone(), one.shards.iter().map(shard).collect::<Vec<_>>()));
                ("variables", variables.collect::<Vec<_>>().into_pyobject(py)?.into_any())
            }
            Event::Rows(unique, rows) => {
                let (rows, positions) = exported(rows);
                ("rows", (Buffer::from(unique), rows, positions).into_pyobject(py)?.into_any())
            }
            Event::Done => ("done", py.None().into_bound(py)),
            Event::Failed(error) => return Err(raised(py, &error)),
        })
    }

    /// Asks this process's tasks to save and end, as SIGTERM does.
    fn terminate(&self) {
        self.gate.interrupt().terminate();
    }

    /// Ends this task's part of the job, and waits for that.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        drop(self.asks.lock().unwrap_or_else(PoisonError::into_inner).take());
        self.gate.check_process(py)?;
        let Ok(mut events) = self.events.try_lock() else { return Ok(()) };
        // By the one mutable reference: a shared one could not leave this thread's hold on the GIL.
        let only = &mut *events;
        py.detach(move || {
            let until = Instant::now() + END;
            // What the thread still tells is nobody's. It drops its end of the channel when the job is over.
            while only.recv_timeout(until.saturating_duration_since(Instant::now())).is_ok() {}
        });
        Ok(())
    }
}

impl Coordinator {
    fn ask(&self, py: Python<'_>, ask: Ask) -> PyResult<()> {
        self.gate.check_process(py)?;
        let asks = self.asks.lock().unwrap_or_else(PoisonError::into_inner);
        match asks.as_ref().map(|asks| asks.send(ask)) {
            Some(Ok(())) => Ok(()),
            _ => Err(raised(py, &ended())),
        }
    }
}

fn result_of(py: Python<'_>, number: u64, result: Result<Vec<u8>>) -> StepResult<'_> {
    match result {
        Ok(bytes) => (number, Some(PyBytes::new(py, &bytes)), None),
        Err(error) => (number, None, Some(raised(py, &error).into_value(py).into_any())),
    }
}

fn partitioner_of((name, sizes): &PartitionerOf) -> Result<Partitioner> {
    match (name.as_str(), sizes.as_slice()) {
        ("whole", []) => Ok(Partitioner::Whole),
        ("fixed_shards", [shards]) => Ok(Partitioner::FixedShards(*shards)),
        ("min_size", &[min_shard_bytes, max_shards]) => Ok(Partitioner::MinSize { min_shard_bytes, max_shards }),
        ("max_size", &[max_shard_bytes]) => Ok(Partitioner::MaxSize { max_shard_bytes, max_shards: None }),
        ("max_size", &[max_shard_bytes, most]) => Ok(Partitioner::MaxSize { max_shard_bytes, max_shards: Some(most) }),
        _ => Err(Error::new(Code::BadSetting, format!("there is no partitioner {name:?} with {} sizes", sizes.len()))),
    }
}

fn busy() -> Error {
    Error::new(Code::BadSetting, "another thread of this program uses the coordinator")
        .because("a coordinator belongs to one thread at a time")
        .help("schedule and join in one thread")
}

fn ended() -> Error {
    Error::new(Code::BadSetting, "the coordinator has ended").help("do not use it after its with block, or after close")
}

/// Adds the classes to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Coordinator>()?;
    module.add_class::<StepRequest>()
}
