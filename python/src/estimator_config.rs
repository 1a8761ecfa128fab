//! The settings of a run, and which task of a cluster this process is.

use crate::error::Raise;
use crate::gate::Gate;
use crate::task::options;
use phalanx::coordinator::{ClusterResolver, TfConfigClusterResolver};
use phalanx::estimator::{RunConfig, WarmStart};
use phalanx_base::Result;
use phalanx_cluster::{ClusterSpec, TaskConfig};
use phalanx_train::logging;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// The cluster and the task that `TF_CONFIG` names.
#[pyclass(frozen, module = "phalanx._phalanx", name = "TaskConfig", from_py_object)]
#[derive(Clone)]
pub(crate) struct PyTaskConfig(TaskConfig);

#[pymethods]
impl PyTaskConfig {
    /// Reads `TF_CONFIG`; without it, this process is the whole job.
    #[staticmethod]
    fn from_env(py: Python<'_>) -> PyResult<Self> {
        let task = TfConfigClusterResolver.resolve().or_raise(py)?;
        logging::log_warnings(&task);
        Ok(Self(task))
    }

    /// The role and the index of this task; `None` for a job of this process alone.
    #[getter]
    fn task(&self) -> Option<(String, u32)> {
        self.0.task().map(|task| (task.role.to_string(), task.index))
    }

    #[getter]
    fn is_local(&self) -> bool {
        self.0.is_local()
    }

    #[getter]
    fn is_chief(&self) -> bool {
        self.0.is_local() || self.0.is_chief()
    }

    /// The numbers of parameter servers and of trainers.
    #[getter]
    fn counts(&self) -> (usize, usize) {
        (self.0.ps_addresses().len(), self.0.trainers().len())
    }

    #[getter]
    fn cluster(&self) -> PyClusterSpec {
        PyClusterSpec(self.0.cluster().clone())
    }

    /// The run directory that `TF_CONFIG` names or the launcher offers.
    #[getter]
    fn model_dir(&self) -> Option<&str> {
        self.0.model_dir().or(self.0.output_dir())
    }
}

/// `tf.train.ClusterSpec`: jobs by name, each with its tasks' addresses.
///
/// >>> spec = ClusterSpec({"ps": ["a:1", "b:1"], "worker": {2: "c:1"}})
/// >>> spec.jobs, spec.task_address("worker", 2), spec.num_tasks("ps")
/// (['ps', 'worker'], 'c:1', 2)
#[pyclass(frozen, module = "phalanx", name = "ClusterSpec")]
pub(crate) struct PyClusterSpec(ClusterSpec);

#[derive(FromPyObject)]
enum Tasks {
    Dense(Vec<String>),
    Sparse(std::collections::BTreeMap<u32, String>),
}

#[pymethods]
impl PyClusterSpec {
    #[new]
    fn new(cluster: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(other) = cluster.cast::<Self>() {
            return Ok(Self(other.get().0.clone()));
        }
        let mut spec = ClusterSpec::new();
        for (job, tasks) in cluster.cast::<PyDict>()? {
            let job: String = job.extract()?;
            spec = match tasks.extract()? {
                Tasks::Dense(addresses) => spec.job(job, addresses),
                Tasks::Sparse(tasks) => spec.sparse_job(job, tasks),
            };
        }
        Ok(Self(spec))
    }

    /// The names of the jobs.
    #[getter]
    fn jobs(&self) -> Vec<&str> {
        self.0.jobs()
    }

    /// Returns the addresses of every job: a list, or by index where some are missing.
    fn as_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (job, tasks) in self.0.as_dict() {
            match tasks {
                phalanx_cluster::JobTasks::Dense(addresses) => dict.set_item(job, PyList::new(py, addresses)?)?,
                phalanx_cluster::JobTasks::Sparse(tasks) => dict.set_item(job, tasks)?,
            }
        }
        Ok(dict)
    }

    /// Returns the number of tasks of a job.
    fn num_tasks(&self, py: Python<'_>, job_name: &str) -> PyResult<usize> {
        self.0.num_tasks(job_name).or_raise(py)
    }

    /// Returns the indices of a job's tasks.
    fn task_indices(&self, py: Python<'_>, job_name: &str) -> PyResult<Vec<u32>> {
        self.0.task_indices(job_name).or_raise(py)
    }

    /// Returns the address of a task.
    fn task_address(&self, py: Python<'_>, job_name: &str, task_index: u32) -> PyResult<&str> {
        self.0.task_address(job_name, task_index).or_raise(py)
    }

    /// Returns the addresses of a job's tasks; `None` for those that have none.
    fn job_tasks(&self, py: Python<'_>, job_name: &str) -> PyResult<Vec<Option<&str>>> {
        self.0.job_tasks(job_name).or_raise(py)
    }

    fn __repr__(&self) -> String {
        format!("ClusterSpec({})", self.0.to_json())
    }
}

/// Where a run begins and is kept.
#[derive(Clone, FromPyObject)]
#[pyo3(from_item_all)]
struct Directory {
    model_dir: Option<String>,
    tf_random_seed: Option<u64>,
    keep_checkpoint_max: usize,
    keep_checkpoint_every_n_hours: f64,
    warm_start: Option<PyWarmStart>,
}

/// How often something is saved or logged: an interval's name, and its number.
#[derive(Clone, FromPyObject)]
#[pyo3(from_item_all)]
struct Intervals {
    save_checkpoints: (String, u64),
    save_summary_steps: u64,
    log_step_count_steps: Option<u64>,
    session_creation_timeout_secs: u64,
}

/// How tasks work together.
#[derive(Clone, FromPyObject)]
#[pyo3(from_item_all)]
struct Together {
    train_distribute: Option<String>,
    eval_distribute: Option<String>,
    overlap: bool,
    program: String,
}

/// The checkpoint that a training starts from: its path, the prefixes of the variables, and their names there.
#[derive(Clone, FromPyObject)]
struct PyWarmStart(String, Vec<String>, Vec<(String, String)>);

/// The settings of a run.
#[derive(Clone)]
pub(crate) struct Config {
    pub(crate) task: TaskConfig,
    directory: Directory,
    intervals: Intervals,
    together: Together,
}

impl Config {
    /// Reads a `phalanx.estimator.RunConfig`, as its `_native` returns it.
    pub(crate) fn read(settings: &Bound<'_, PyAny>) -> PyResult<Self> {
        let task: PyTaskConfig = settings.get_item("task")?.extract()?;
        let (directory, intervals) = (settings.extract()?, settings.extract()?);
        Ok(Self { task: task.0, directory, intervals, together: settings.extract()? })
    }

    /// Returns the settings of a task that Ctrl-C in `gate` stops.
    pub(crate) fn run_config(&self, gate: &Gate) -> Result<RunConfig> {
        let Self { directory, intervals, together, .. } = self;
        let options = options(gate, &together.program)?;
        let mut config = RunConfig::new()
            .task(self.task.clone())
            .server_options(options)
            .save_summary_steps(intervals.save_summary_steps)
            .log_step_count_steps(intervals.log_step_count_steps)
            .session_creation_timeout_secs(intervals.session_creation_timeout_secs)
            .keep_checkpoint_max(directory.keep_checkpoint_max)
            .keep_checkpoint_every_n_hours(directory.keep_checkpoint_every_n_hours)
            .overlap(together.overlap);
        config = match (intervals.save_checkpoints.0.as_str(), intervals.save_checkpoints.1) {
            ("steps", steps) => config.save_checkpoints_steps(steps),
            ("secs", seconds) => config.save_checkpoints_secs(seconds),
            ("never", _) => config.save_checkpoints_secs(None),
            _ => config,
        };
        if let Some(dir) = &directory.model_dir {
            config = config.model_dir(dir);
        }
        if let Some(seed) = directory.tf_random_seed {
            config = config.tf_random_seed(seed);
        }
        if let Some(PyWarmStart(path, prefixes, names)) = &directory.warm_start {
            let from = WarmStart::new(path).only_prefixes(prefixes);
            config = config.warm_start_from(names.iter().fold(from, |from, (ours, theirs)| from.rename(ours, theirs)));
        }
        if let Some(strategy) = &together.train_distribute {
            config = config.train_distribute(strategy.as_str());
        }
        if let Some(strategy) = &together.eval_distribute {
            config = config.eval_distribute(strategy.as_str());
        }
        Ok(config)
    }
}

/// Adds the classes to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyTaskConfig>()?;
    module.add_class::<PyClusterSpec>()
}
