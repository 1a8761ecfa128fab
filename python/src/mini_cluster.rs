//! A job inside this process.

use crate::error::{Raise, caught};
use crate::gate::{Gate, OnCtrlC};
use crate::process::Held;
use crate::task::{self, Server};
use phalanx_base::{Code, Error};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, PoisonError};

/// A job inside this process, for tests and notebooks: parameter servers, a chief and workers, each with its own port on
/// loopback.
#[pyclass(frozen, module = "phalanx")]
pub(crate) struct MiniCluster {
    gate: Gate,
    cluster: Held<Arc<phalanx_train::MiniCluster>>,
}

#[pymethods]
impl MiniCluster {
    /// Starts `ps` parameter servers, a chief, and `workers` workers beside it.
    #[new]
    #[pyo3(signature = (ps=1, workers=1))]
    fn new(py: Python<'_>, ps: u32, workers: u32) -> PyResult<Self> {
        let gate = Gate::new();
        let options = task::local_options(&gate, "mini cluster").or_raise(py)?;
        let start = move || phalanx_train::MiniCluster::start_with(ps, workers, options);
        let cluster = Held::new(Arc::new(gate.enter(py, start)?));
        Ok(Self { gate, cluster })
    }

    /// Runs `part` for every trainer, each on its own thread, while the parameter servers serve. Returns what the chief's
    /// returned, after every task has ended.
    fn run(&self, py: Python<'_>, part: Py<PyAny>) -> PyResult<Py<PyAny>> {
        let (cluster, gate) = (Arc::clone(&self.cluster), self.gate.clone());
        let first: Arc<Mutex<Option<PyErr>>> = Arc::default();
        let raised = Arc::clone(&first);
        let run = move || {
            cluster.run(|server| {
                Python::attach(|py| {
                    let server = Server::new(gate.clone(), server.clone());
                    part.call1(py, (server,)).map_err(|exception| {
                        let error = caught(py, &exception);
                        raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(exception);
                        error
                    })
                })
            })
        };
        let done = self.gate.enter_as(py, OnCtrlC::Finish, run);
        // The program's own exception says more than the error that it became.
        let exception = first.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (done, exception) {
            (Ok(result), _) => Ok(result),
            (Err(error), Some(exception)) if !error.is_instance_of::<PyKeyboardInterrupt>(py) => Err(exception),
            (Err(error), _) => Err(error),
        }
    }

    /// Kills a task such as `worker/0`, as the operating system kills a process.
    fn kill(&self, py: Python<'_>, task: &str) -> PyResult<()> {
        self.cluster.kill(task).or_raise(py)
    }

    /// The names of all tasks, the parameter servers first.
    #[getter]
    fn tasks(&self) -> Vec<String> {
        let all = self.cluster.servers().iter().chain(self.cluster.trainers());
        all.map(|server| server.task().to_string()).collect()
    }

    /// The running task of this name.
    fn server(&self, py: Python<'_>, task: &str) -> PyResult<Server> {
        let mut all = self.cluster.servers().iter().chain(self.cluster.trainers());
        let found = all.find(|server| server.task().to_string() == task);
        let missing = || Error::new(Code::NoSuchTask, format!("the cluster has no {task}"));
        let server = found.ok_or_else(missing).or_raise(py)?;
        Ok(Server::new(self.gate.clone(), server.clone()))
    }
}

/// Adds the class to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<MiniCluster>()
}
