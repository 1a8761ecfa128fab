//! A running task of a job.

use crate::error::{Raise, caught};
use crate::gate::{Gate, OnCtrlC};
use crate::process::Held;
use phalanx_base::{Result, Role};
use phalanx_cluster::TaskConfig;
use phalanx_train::ServerOptions;
use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;

/// A running task: a chief, a worker or a parameter server, or a job of this process alone.
#[pyclass(frozen, module = "phalanx")]
pub(crate) struct Server {
    gate: Gate,
    server: Held<phalanx_train::Server>,
}

impl Server {
    pub(crate) fn new(gate: Gate, server: phalanx_train::Server) -> Self {
        Self { gate, server: Held::new(server) }
    }

    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Returns the task for the crates.
    pub(crate) fn inner(&self) -> &phalanx_train::Server {
        &self.server
    }
}

/// Returns the options, from the environment, of a task whose program is `program`, a fingerprint of the script.
pub(crate) fn options(gate: &Gate, program: &str) -> Result<ServerOptions> {
    of_program(gate, program, ServerOptions::from_variables()?)
}

/// Returns the options of a job that is in this process alone, whatever the environment says.
pub(crate) fn local_options(gate: &Gate, program: &str) -> Result<ServerOptions> {
    of_program(gate, program, ServerOptions::default())
}

fn of_program(gate: &Gate, program: &str, options: ServerOptions) -> Result<ServerOptions> {
    let build = Some(format!("{}, program {program}", phalanx_train::build_fingerprint()?));
    Ok(ServerOptions { interrupt: gate.interrupt().clone(), build, ..options })
}

#[pymethods]
impl Server {
    /// Starts the task that `TF_CONFIG` names; without it, a job of this process alone. `program` tells programs apart: tasks
    /// of another program are refused.
    #[staticmethod]
    fn from_env(py: Python<'_>, program: &str) -> PyResult<Self> {
        let gate = Gate::new();
        let options = options(&gate, program).or_raise(py)?;
        let start = move || {
            let config = phalanx::task_from_env()?.or_local_if_alone();
            phalanx_train::Server::start_with(config, options)
        };
        let server = gate.enter(py, start)?;
        Ok(Self::new(gate, server))
    }

    /// Starts a job of this process alone, whatever the environment says.
    #[staticmethod]
    fn local(py: Python<'_>) -> PyResult<Self> {
        let gate = Gate::new();
        let options = local_options(&gate, "local").or_raise(py)?;
        let server = gate.enter(py, move || phalanx_train::Server::start_with(TaskConfig::local(), options))?;
        Ok(Self::new(gate, server))
    }

    /// The task's name, such as `worker/0`.
    #[getter]
    fn task(&self) -> String {
        self.server.task().to_string()
    }

    /// `chief`, `worker` or `ps`.
    #[getter]
    fn role(&self) -> String {
        self.server.task().role.to_string()
    }

    /// The task's index among those of its role.
    #[getter]
    fn index(&self) -> u32 {
        self.server.task().index
    }

    /// Whether this task is the chief: it initialises the model, saves, and ends the job.
    #[getter]
    fn is_chief(&self) -> bool {
        self.server.is_chief()
    }

    /// Whether this task trains: a parameter server does not.
    #[getter]
    fn is_trainer(&self) -> bool {
        self.server.task().role != Role::Ps
    }

    /// The task's address, such as `grpc://127.0.0.1:2222`.
    #[getter]
    fn target(&self) -> String {
        self.server.target()
    }

    /// The run directory that `TF_CONFIG` names or the launcher offers.
    #[getter]
    fn model_dir(&self) -> Option<String> {
        let config = self.server.config();
        config.model_dir().or(config.output_dir()).map(str::to_owned)
    }

    /// How many trainers share the input, and which of them this is.
    #[getter]
    fn input_pipeline(&self, py: Python<'_>) -> PyResult<(usize, usize)> {
        let context = self.server.input_context().or_raise(py)?;
        Ok((context.num_input_pipelines, context.input_pipeline_id))
    }

    /// Whether trainers should stop: the job is ending, or this process was asked to.
    #[getter]
    fn should_stop(&self) -> bool {
        self.server.should_stop()
    }

    /// Waits until every task of the job has joined.
    fn wait_until_formed(&self, py: Python<'_>) -> PyResult<()> {
        let server = self.inner().clone();
        self.gate.enter(py, move || server.wait_until_formed())
    }

    /// Serves until the job is over: the part of a parameter server.
    fn join(&self, py: Python<'_>) -> PyResult<()> {
        let server = self.inner().clone();
        self.gate.enter_as(py, OnCtrlC::Finish, move || server.join())
    }

    /// Leaves the job. A chief ends it.
    fn leave(&self, py: Python<'_>) -> PyResult<()> {
        let server = self.inner().clone();
        self.gate.enter_as(py, OnCtrlC::Finish, move || {
            server.leave(None);
            Ok(())
        })
    }

    /// Leaves the job because of this exception. It ends the job for all tasks, unless it is of the infrastructure's making.
    fn fail(&self, py: Python<'_>, exception: &Bound<'_, PyBaseException>) -> PyResult<()> {
        let error = caught(py, &PyErr::from_value(exception.clone().into_any()));
        let server = self.inner().clone();
        self.gate.enter_as(py, OnCtrlC::Finish, move || {
            server.leave(Some(&error));
            Ok(())
        })
    }

    /// Asks this process's tasks to save and end, as SIGTERM does.
    fn terminate(&self) {
        self.gate.interrupt().terminate();
    }

    /// Asks this process's tasks to save and end, as Ctrl-C does.
    fn interrupt(&self) {
        self.gate.interrupt().ctrl_c();
    }

    fn __repr__(&self) -> String {
        format!("<phalanx.Server {} at {}>", self.server.task(), self.server.target())
    }
}

/// Adds the class to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Server>()
}
