//! What a task has to know of its job before it does anything.

use phalanx_base::{Address, Code, Error, Result, Role, TaskId};

use crate::estimator::{self, Purpose};
use crate::{ClusterSpec, Flags, Json, Warning};

/// Who this process is and where the others are; from `TF_CONFIG`, from flags, or by hand.
///
/// There is always one chief: the job `chief`, the legacy job `master`, or worker 0 where there is neither. Without a
/// cluster this process is the whole job ([`TaskConfig::is_local`]).
///
/// ```
/// use phalanx_cluster::TaskConfig;
/// let text = r#"{"cluster": {"chief": ["a:1"], "ps": ["b:1"], "worker": ["c:1"]}, "task": {"type": "ps", "index": 0}}"#;
/// let config = TaskConfig::from_tf_config(Some(text)).unwrap();
/// assert_eq!(config.chief().unwrap().1.to_string(), "a:1");
/// assert_eq!(config.trainers().len(), 2);
/// assert!(TaskConfig::from_tf_config(None).unwrap().is_local());
/// ```
#[derive(Clone, Debug, Default)]
pub struct TaskConfig {
    cluster: ClusterSpec,
    /// Every task that listens: the chief, the workers, the parameter servers, by index.
    tasks: Vec<(TaskId, Address)>,
    task: Option<TaskId>,
    model_dir: Option<String>,
    service: Option<Json>,
    warnings: Vec<Warning>,
}

impl TaskConfig {
    /// One process that does everything.
    #[must_use]
    pub fn local() -> Self {
        Self::default()
    }

    /// Reads the text of `TF_CONFIG` (`None`: the variable is not set) under the Estimator's rules, except that worker 0
    /// may be the chief, and that a task which TensorFlow would refuse later is refused at once.
    ///
    /// # Errors
    /// When the text is not a valid `TF_CONFIG`; the error points at the place.
    pub fn from_tf_config(text: Option<&str>) -> Result<Self> {
        let (config, cluster) = estimator::read(text, None, Purpose::Run)?;
        let index = u32::try_from(config.task_id);
        let index = index.map_err(|_| Error::new(Code::ConfigTaskIndex, "the task's index is too large"))?;
        let task = if cluster.is_empty() { None } else { Some(TaskId::new(config.task_type.parse()?, index)) };
        let model_dir = config.model_dir.as_ref().and_then(Json::as_str).map(str::to_owned);
        let tasks = listening(&cluster)?;
        Ok(Self { cluster, tasks, task, model_dir, service: config.service, warnings: config.warnings })
    }

    /// Reads `--ps_hosts --worker_hosts --job_name --task_index`; none of them is local mode.
    ///
    /// # Errors
    /// When flags are missing, contradict each other or name nobody.
    pub fn from_flags(flags: &Flags) -> Result<Self> {
        if flags.is_empty() {
            return Ok(Self::local());
        }
        let (cluster, task) = flags.read()?;
        Self::from_cluster(cluster, task)
    }

    /// One task of a cluster that was put together by hand.
    ///
    /// # Errors
    /// When the cluster has no chief or two, does not list the task (an evaluator need not be listed), or has an address that
    /// is none.
    pub fn from_cluster(cluster: ClusterSpec, task: TaskId) -> Result<Self> {
        if cluster.has_job("chief") && cluster.has_job("master") {
            return Err(Error::new(Code::ConfigChief, "the cluster has a \"chief\" and a \"master\""));
        }
        let tasks = listening(&cluster)?;
        let config = Self { cluster, tasks, task: Some(task), ..Self::default() };
        let chiefs = config.with_role(Role::Chief).len();
        if chiefs > 1 {
            return Err(Error::new(Code::ConfigChief, format!("the cluster has {chiefs} chiefs")));
        }
        if config.chief().is_none() {
            return Err(Error::new(Code::ConfigChief, "the cluster has no chief").help("add a chief or worker 0"));
        }
        if task.role != Role::Evaluator {
            config.address_of(task)?;
        }
        Ok(config)
    }

    /// All jobs, as they were given.
    #[must_use]
    pub fn cluster(&self) -> &ClusterSpec {
        &self.cluster
    }

    /// Who this process is; `None` in local mode.
    #[must_use]
    pub fn task(&self) -> Option<TaskId> {
        self.task
    }

    /// Whether there is no cluster.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.task.is_none()
    }

    /// Whether this process looks after the job; in local mode it does.
    #[must_use]
    pub fn is_chief(&self) -> bool {
        self.task == self.chief().map(|(chief, _)| chief)
    }

    /// The run directory that `TF_CONFIG` names.
    #[must_use]
    pub fn model_dir(&self) -> Option<&str> {
        self.model_dir.as_deref()
    }

    /// What `TF_CONFIG` says under `service`.
    #[must_use]
    pub fn service(&self) -> Option<&Json> {
        self.service.as_ref()
    }

    /// What is allowed and probably not meant.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// The chief and its address; `None` in local mode.
    #[must_use]
    pub fn chief(&self) -> Option<(TaskId, &Address)> {
        let first = |role| self.tasks.iter().find(|(task, _)| *task == TaskId::new(role, 0));
        first(Role::Chief).or_else(|| first(Role::Worker)).map(|(task, address)| (*task, address))
    }

    /// The parameter servers, by index.
    #[must_use]
    pub fn ps_addresses(&self) -> Vec<(TaskId, Address)> {
        self.with_role(Role::Ps)
    }

    /// The tasks of the job `worker`, by index.
    #[must_use]
    pub fn workers(&self) -> Vec<(TaskId, Address)> {
        self.with_role(Role::Worker)
    }

    /// Everybody who trains: the chief first, then the workers.
    #[must_use]
    pub fn trainers(&self) -> Vec<(TaskId, Address)> {
        self.tasks.iter().filter(|(task, _)| task.role != Role::Ps).cloned().collect()
    }

    /// This task's place among [`TaskConfig::trainers`], by which data is shared out; `None` if it does not train.
    #[must_use]
    pub fn trainer_index(&self) -> Option<usize> {
        match self.task {
            None => Some(0),
            Some(own) => self.trainers().iter().position(|(task, _)| *task == own),
        }
    }

    /// Every task that listens: all but evaluators and jobs that are no role.
    #[must_use]
    pub fn tasks(&self) -> Vec<(TaskId, Address)> {
        self.tasks.clone()
    }

    /// Where a task listens.
    ///
    /// # Errors
    /// When the cluster does not list it.
    pub fn address_of(&self, task: TaskId) -> Result<&Address> {
        let found = self.tasks.iter().find(|(listed, _)| *listed == task).map(|(_, address)| address);
        let Some(address) = found else {
            let why = self.cluster.task_address(task.role.as_str(), task.index).err();
            return Err(why.unwrap_or_else(|| Error::new(Code::NoSuchTask, format!("{task} listens nowhere"))));
        };
        Ok(address)
    }

    /// A name for the job that all of its tasks agree on and that another job on the same machines does not have:
    /// the chief's address and a checksum of the parameter servers'.
    #[must_use]
    pub fn job_id(&self) -> String {
        let Some((_, chief)) = self.chief() else { return "local".to_owned() };
        // FNV-1a; a zero byte, which no address has, ends each address.
        let bytes = self.ps_addresses().into_iter().flat_map(|(_, address)| format!("{address}\0").into_bytes());
        let sum = bytes.fold(0x811c_9dc5_u32, |sum, byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        format!("{chief}/{sum:08x}")
    }

    fn with_role(&self, role: Role) -> Vec<(TaskId, Address)> {
        self.tasks.iter().filter(|(task, _)| task.role == role).cloned().collect()
    }
}

/// The tasks of a cluster that listen, with their addresses. The legacy job `master` is the chief.
fn listening(cluster: &ClusterSpec) -> Result<Vec<(TaskId, Address)>> {
    let jobs = [("chief", Role::Chief), ("master", Role::Chief), ("worker", Role::Worker), ("ps", Role::Ps)];
    let tasks = jobs.into_iter().filter_map(|(job, role)| Some((role, cluster.find(job)?)));
    let tasks =
        tasks.flat_map(|(role, tasks)| tasks.iter().map(move |(&index, text)| (TaskId::new(role, index), text)));
    tasks.map(|(task, text)| Ok((task, text.parse::<Address>().map_err(|error| error.at(task.to_string()))?))).collect()
}
