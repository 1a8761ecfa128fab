//! The configuration of a task.

use phalanx_base::{Address, Code, Error, Result, Role, TaskId, fnv1a};

use crate::estimator::{self, Purpose};
use crate::{ClusterSpec, Flags, Json, Warning};

/// The identity of this process and the addresses of the others, from `TF_CONFIG`, from flags, or built by hand.
///
/// There is always one chief: the job `chief`, the legacy job `master`, or worker 0 if there is neither. Only an evaluator may
/// be configured without a training cluster, which it never connects to; any other task without a cluster is the entire job
/// ([`TaskConfig::is_local`]).
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
    /// Every task that listens, by index: the chief, the workers, the parameter servers.
    tasks: Vec<(TaskId, Address)>,
    task: Option<TaskId>,
    model_dir: Option<String>,
    output_dir: Option<String>,
    service: Option<Json>,
    warnings: Vec<Warning>,
}

impl TaskConfig {
    /// Returns the configuration of a job in one process.
    #[must_use]
    pub fn local() -> Self {
        Self::default()
    }

    /// Parses the text of `TF_CONFIG` (`None`: the variable is not set) by the Estimator's rules, except that worker 0
    /// may be the chief, that an evaluator need not know the training cluster, and that a task which TensorFlow would refuse
    /// later is refused at once.
    ///
    /// # Errors
    /// When the text is not a valid `TF_CONFIG`; the error points into the text.
    pub fn from_tf_config(text: Option<&str>) -> Result<Self> {
        let (config, cluster) = estimator::read(text, None, Purpose::Run)?;
        let index = u32::try_from(config.task_id);
        let index = index.map_err(|_| Error::new(Code::ConfigTaskIndex, "the task's index is too large"))?;
        let own = TaskId::new(config.task_type.parse()?, index);
        let task = (!cluster.is_empty() || own.role == Role::Evaluator).then_some(own);
        let model_dir = config.model_dir.as_ref().and_then(Json::as_str).map(str::to_owned);
        let tasks = listening(&cluster)?;
        let (service, warnings) = (config.service, config.warnings);
        Ok(Self { cluster, tasks, task, model_dir, output_dir: None, service, warnings })
    }

    /// Reads `--ps_hosts --worker_hosts --job_name --task_index`. Without any of them the task is local.
    ///
    /// # Errors
    /// When flags are missing, contradict each other or name no task.
    pub fn from_flags(flags: &Flags) -> Result<Self> {
        if flags.is_empty() {
            return Ok(Self::local());
        }
        let (cluster, task) = flags.read()?;
        Self::from_cluster(cluster, task)
    }

    /// Reads the flags if there are any, and else the text of `TF_CONFIG`. The flags win because they were given to this
    /// process alone, while a variable is inherited; a warning then tells that `TF_CONFIG` is not read.
    ///
    /// ```
    /// use phalanx_cluster::{Flags, TaskConfig};
    /// let text = r#"{"cluster": {"chief": ["a:1"], "ps": ["b:1"]}, "task": {"type": "ps", "index": 0}}"#;
    /// let (flags, _) = Flags::take_from(["train", "--worker_hosts=c:1,d:1", "--job_name=worker", "--task_index=1"])?;
    /// let config = TaskConfig::from_flags_or_tf_config(&flags, Some(text))?;
    /// assert_eq!((config.task().unwrap().to_string(), config.warnings().len()), ("worker/0".into(), 1));
    /// let config = TaskConfig::from_flags_or_tf_config(&Flags::default(), Some(text))?;
    /// assert_eq!(config.task().unwrap().to_string(), "ps/0");
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::from_flags`] or [`Self::from_tf_config`], whichever is read.
    pub fn from_flags_or_tf_config(flags: &Flags, text: Option<&str>) -> Result<Self> {
        if flags.is_empty() {
            return Self::from_tf_config(text);
        }
        let mut config = Self::from_flags(flags)?;
        if text.is_some() {
            let task = config.task.map_or_else(String::new, |task| task.to_string());
            config.warnings.push(Warning::new(
                Error::new(Code::ConfigIgnored, "TF_CONFIG is not read")
                    .because(format!("the flags of the command line make this process {task}"))
                    .help("unset TF_CONFIG, or leave the flags out"),
            ));
        }
        Ok(config)
    }

    /// Returns a local configuration in place of a cluster whose only task is this one, which trains: it holds its own
    /// parameters then. The run directory stays.
    #[must_use]
    pub fn or_local_if_alone(self) -> Self {
        let trains = self.task.is_some_and(|own| matches!(own.role, Role::Chief | Role::Worker));
        if !trains || self.tasks.len() != 1 {
            return self;
        }
        let (model_dir, output_dir, warnings) = (self.model_dir, self.output_dir, self.warnings);
        Self { model_dir, output_dir, warnings, ..Self::local() }
    }

    /// Returns the configuration of one task of a cluster.
    ///
    /// # Errors
    /// When the cluster has no chief or several, does not list the task (an evaluator need not be listed), or has an
    /// invalid address.
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
        let standalone = task.role == Role::Evaluator && config.cluster.jobs().iter().all(|job| *job == "evaluator");
        if config.chief().is_none() && !standalone {
            return Err(Error::new(Code::ConfigChief, "the cluster has no chief").help("add a chief or worker 0"));
        }
        if task.role != Role::Evaluator {
            config.address_of(task)?;
        }
        Ok(config)
    }

    /// Sets the run directory, as `model_dir` of `TF_CONFIG` does.
    #[must_use]
    pub fn with_model_dir(self, model_dir: Option<&str>) -> Self {
        Self { model_dir: model_dir.map(str::to_owned), ..self }
    }

    /// Returns all jobs, as they were given.
    #[must_use]
    pub fn cluster(&self) -> &ClusterSpec {
        &self.cluster
    }

    /// Returns this task; `None` in local mode.
    #[must_use]
    pub fn task(&self) -> Option<TaskId> {
        self.task
    }

    /// Returns whether this process is the entire job.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.task.is_none()
    }

    /// Returns whether this task is the chief; in local mode it is.
    #[must_use]
    pub fn is_chief(&self) -> bool {
        self.task == self.chief().map(|(chief, _)| chief)
    }

    /// Returns the run directory given in `TF_CONFIG`.
    #[must_use]
    pub fn model_dir(&self) -> Option<&str> {
        self.model_dir.as_deref()
    }

    /// Sets the run directory for programs that choose none, as a launcher offers it.
    #[must_use]
    pub fn with_output_dir(self, dir: Option<String>) -> Self {
        Self { output_dir: dir, ..self }
    }

    /// Returns the run directory for a program that chooses none, while [`TaskConfig::model_dir`] is empty too.
    #[must_use]
    pub fn output_dir(&self) -> Option<&str> {
        self.output_dir.as_deref()
    }

    /// Returns the value of `service` in `TF_CONFIG`.
    #[must_use]
    pub fn service(&self) -> Option<&Json> {
        self.service.as_ref()
    }

    /// Returns the warnings about likely mistakes.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Returns the chief and its address; `None` in local mode and for an evaluator that does not know the cluster.
    #[must_use]
    pub fn chief(&self) -> Option<(TaskId, &Address)> {
        let first = |role| self.tasks.iter().find(|(task, _)| *task == TaskId::new(role, 0));
        first(Role::Chief).or_else(|| first(Role::Worker)).map(|(task, address)| (*task, address))
    }

    /// Returns the parameter servers, by index.
    #[must_use]
    pub fn ps_addresses(&self) -> Vec<(TaskId, Address)> {
        self.with_role(Role::Ps)
    }

    /// Returns the tasks of the job `worker`, by index.
    #[must_use]
    pub fn workers(&self) -> Vec<(TaskId, Address)> {
        self.with_role(Role::Worker)
    }

    /// Returns the tasks that train: the chief first, then the workers.
    #[must_use]
    pub fn trainers(&self) -> Vec<(TaskId, Address)> {
        self.tasks.iter().filter(|(task, _)| task.role != Role::Ps).cloned().collect()
    }

    /// Returns this task's index in [`TaskConfig::trainers`], by which data is sharded; `None` if it does not train.
    #[must_use]
    pub fn trainer_index(&self) -> Option<usize> {
        match self.task {
            None => Some(0),
            Some(own) => self.trainers().iter().position(|(task, _)| *task == own),
        }
    }

    /// Returns every task that listens: all but evaluators and jobs without a role.
    #[must_use]
    pub fn tasks(&self) -> Vec<(TaskId, Address)> {
        self.tasks.clone()
    }

    /// Returns the address of a task.
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

    /// Returns the id of the job, on which all of its tasks agree and which no other job on the same machines has: the
    /// chief's address and a checksum of the parameter servers'.
    #[must_use]
    pub fn job_id(&self) -> String {
        let Some((_, chief)) = self.chief() else { return "local".to_owned() };
        // A zero byte, which no address contains, ends each address.
        let bytes = self.ps_addresses().into_iter().flat_map(|(_, address)| format!("{address}\0").into_bytes());
        format!("{chief}/{:08x}", fnv1a(bytes) as u32)
    }

    fn with_role(&self, role: Role) -> Vec<(TaskId, Address)> {
        self.tasks.iter().filter(|(task, _)| task.role == role).cloned().collect()
    }
}

/// Returns the tasks of a cluster that listen, with their addresses. The legacy job `master` is the chief.
fn listening(cluster: &ClusterSpec) -> Result<Vec<(TaskId, Address)>> {
    let jobs = [("chief", Role::Chief), ("master", Role::Chief), ("worker", Role::Worker), ("ps", Role::Ps)];
    let tasks = jobs.into_iter().filter_map(|(job, role)| Some((role, cluster.find(job)?)));
    let tasks =
        tasks.flat_map(|(role, tasks)| tasks.iter().map(move |(&index, text)| (TaskId::new(role, index), text)));
    tasks.map(|(task, text)| Ok((task, text.parse::<Address>().map_err(|error| error.at(task.to_string()))?))).collect()
}
