//! The tasks of a job and their addresses: TensorFlow's `ClusterSpec`.

use std::collections::{BTreeMap, HashMap};

use phalanx_base::{Code, Error, Result, nearest};

use crate::Json;

/// Jobs by name, each with its tasks' addresses by index. A job may be sparse: some indices have no address.
///
/// ```
/// use phalanx_cluster::ClusterSpec;
/// let spec = ClusterSpec::new().job("ps", ["a:1", "b:1"]).sparse_job("worker", [(2, "c:1")]);
/// assert_eq!(spec.jobs(), ["ps", "worker"]);
/// assert_eq!(spec.task_address("worker", 2).unwrap(), "c:1");
/// assert_eq!(spec.job_tasks("worker").unwrap(), [None, None, Some("c:1")]);
/// assert_eq!(spec.to_json().to_string(), r#"{"ps": ["a:1", "b:1"], "worker": {"2": "c:1"}}"#);
/// ```
#[derive(Clone, Debug, Default)]
pub struct ClusterSpec {
    /// In the order in which they were given. A list, because there are few.
    jobs: Vec<(String, BTreeMap<u32, String>)>,
}

/// The tasks of one job, in their shortest form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobTasks<'a> {
    /// Indices from 0 without gaps.
    Dense(Vec<&'a str>),
    /// Indices with gaps, or no tasks.
    Sparse(BTreeMap<u32, &'a str>),
}

impl ClusterSpec {
    /// The largest index. A job with more tasks is a typing mistake, and its list would fill the memory.
    pub const MAX_INDEX: u32 = (1 << 20) - 1;

    /// Creates a cluster without jobs.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a job whose tasks are numbered from 0. Replaces a job of the same name.
    #[must_use]
    pub fn job<A: Into<String>>(self, name: impl Into<String>, addresses: impl IntoIterator<Item = A>) -> Self {
        self.sparse_job(name, (0..).zip(addresses))
    }

    /// Adds a job with addresses for some indices only. Replaces a job of the same name. Indices beyond
    /// [`ClusterSpec::MAX_INDEX`] are left out.
    #[must_use]
    pub fn sparse_job<A: Into<String>>(
        mut self,
        name: impl Into<String>,
        tasks: impl IntoIterator<Item = (u32, A)>,
    ) -> Self {
        let name = name.into();
        let tasks = tasks.into_iter().filter(|&(index, _)| index <= Self::MAX_INDEX);
        let tasks = tasks.map(|(index, address)| (index, address.into())).collect();
        match self.jobs.iter_mut().find(|(job, _)| *job == name) {
            Some((_, old)) => *old = tasks,
            None => self.jobs.push((name, tasks)),
        }
        self
    }

    /// Creates a cluster from jobs with distinct names and valid indices.
    pub(crate) fn from_unique(jobs: Vec<(String, BTreeMap<u32, String>)>) -> Self {
        Self { jobs }
    }

    /// Returns whether there are no jobs. A job without tasks counts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Returns the jobs' names in the order in which they were given.
    #[must_use]
    pub fn jobs(&self) -> Vec<&str> {
        self.jobs.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// Returns whether there is a job of that name.
    #[must_use]
    pub fn has_job(&self, job: &str) -> bool {
        self.find(job).is_some()
    }

    /// Returns every job with its tasks: a list if the indices are dense, else a map.
    #[must_use]
    pub fn as_dict(&self) -> Vec<(&str, JobTasks<'_>)> {
        let say = |tasks| if slots(tasks) == tasks.len() && !tasks.is_empty() { dense(tasks) } else { sparse(tasks) };
        self.jobs.iter().map(|(name, tasks)| (name.as_str(), say(tasks))).collect()
    }

    /// Returns the number of tasks of the job that have an address.
    ///
    /// # Errors
    /// When there is no such job.
    pub fn num_tasks(&self, job: &str) -> Result<usize> {
        self.tasks_of(job).map(BTreeMap::len)
    }

    /// Returns the indices that have an address, ascending.
    ///
    /// # Errors
    /// When there is no such job.
    pub fn task_indices(&self, job: &str) -> Result<Vec<u32>> {
        self.tasks_of(job).map(|tasks| tasks.keys().copied().collect())
    }

    /// Returns the address of one task.
    ///
    /// # Errors
    /// When there is no such job, or the job has no task with this index.
    pub fn task_address(&self, job: &str, index: u32) -> Result<&str> {
        let tasks = self.tasks_of(job)?;
        tasks.get(&index).map(String::as_str).ok_or_else(|| {
            let known: Vec<String> = tasks.keys().take(8).map(u32::to_string).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let more = if tasks.len() > 8 { ", …" } else { "" };
            Error::new(Code::NoSuchTask, format!("job {job:?} has no task {index}"))
                .because(format!("its indices are {known}{more}"))
        })
    }

    /// Returns the addresses by index, with `None` for the gaps of a sparse job.
    ///
    /// # Errors
    /// When there is no such job.
    pub fn job_tasks(&self, job: &str) -> Result<Vec<Option<&str>>> {
        let tasks = self.tasks_of(job)?;
        let mut list = vec![None; slots(tasks)];
        for (&index, address) in tasks {
            list[index as usize] = Some(address.as_str());
        }
        Ok(list)
    }

    /// Returns the cluster as JSON, in the form of `TF_CONFIG`.
    #[must_use]
    pub fn to_json(&self) -> Json {
        Json::object(self.as_dict().into_iter().map(|(job, tasks)| {
            let tasks = match tasks {
                JobTasks::Dense(list) => Json::List(list.into_iter().map(Json::text).collect()),
                JobTasks::Sparse(map) => Json::object(map.into_iter().map(|(i, a)| (i.to_string(), Json::text(a)))),
            };
            (job, tasks)
        }))
    }

    /// Returns the tasks of a job, if there is such a job.
    pub(crate) fn find(&self, job: &str) -> Option<&BTreeMap<u32, String>> {
        self.jobs.iter().find(|(name, _)| name == job).map(|(_, tasks)| tasks)
    }

    /// Returns the number of tasks of the job that have an address; 0 if there is no such job.
    pub(crate) fn count(&self, job: &str) -> usize {
        self.find(job).map_or(0, BTreeMap::len)
    }

    /// Returns the length of TensorFlow's list of a job, gaps included; `None` if there is no job or it is empty.
    pub(crate) fn slots(&self, job: &str) -> Option<usize> {
        self.find(job).map(slots).filter(|&slots| slots > 0)
    }

    /// Whether the cluster is one job with one slot.
    pub(crate) fn is_single(&self) -> bool {
        matches!(&self.jobs[..], [(_, tasks)] if slots(tasks) == 1)
    }

    fn tasks_of(&self, job: &str) -> Result<&BTreeMap<u32, String>> {
        self.find(job).ok_or_else(|| {
            let error = Error::new(Code::NoSuchTask, format!("the cluster has no job {job:?}"));
            match nearest(job, self.jobs()) {
                Some(near) => error.help(format!("did you mean {near:?}?")),
                None if self.is_empty() => error.because("it has no jobs"),
                None => error.because(format!("its jobs are {}", self.jobs().join(", "))),
            }
        })
    }
}

/// Clusters are equal if they have the same jobs in any order.
impl PartialEq for ClusterSpec {
    fn eq(&self, other: &Self) -> bool {
        let map = |spec: &'_ Self| -> HashMap<String, BTreeMap<u32, String>> { spec.jobs.iter().cloned().collect() };
        self.jobs.len() == other.jobs.len() && map(self) == map(other)
    }
}

impl Eq for ClusterSpec {}

fn slots(tasks: &BTreeMap<u32, String>) -> usize {
    tasks.last_key_value().map_or(0, |(&last, _)| last as usize + 1)
}

fn dense(tasks: &BTreeMap<u32, String>) -> JobTasks<'_> {
    JobTasks::Dense(tasks.values().map(String::as_str).collect())
}

fn sparse(tasks: &BTreeMap<u32, String>) -> JobTasks<'_> {
    JobTasks::Sparse(tasks.iter().map(|(&index, address)| (index, address.as_str())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> ClusterSpec {
        ClusterSpec::new().job("worker", ["w0:1", "w1:1"]).sparse_job("ps", [(1, "p1:1")]).job("idle", [""; 0])
    }

    #[test]
    fn answers_what_tensorflow_answers() {
        let spec = sample();
        assert_eq!(spec.jobs(), ["worker", "ps", "idle"]);
        assert_eq!(spec.num_tasks("ps").unwrap(), 1);
        assert_eq!(spec.task_indices("ps").unwrap(), [1]);
        assert_eq!(spec.job_tasks("ps").unwrap(), [None, Some("p1:1")]);
        assert_eq!(spec.as_dict()[0].1, JobTasks::Dense(vec!["w0:1", "w1:1"]));
        assert_eq!(spec.as_dict()[2].1, JobTasks::Sparse(BTreeMap::new()));
        assert!(ClusterSpec::new().is_empty() && !spec.is_empty());
    }

    #[test]
    fn a_dense_map_is_a_list_and_the_order_of_jobs_does_not_matter() {
        let map = ClusterSpec::new().sparse_job("b", [(1, "y"), (0, "x")]).job("a", ["z"]);
        assert_eq!(map, ClusterSpec::new().job("a", ["z"]).job("b", ["x", "y"]));
        assert_ne!(map, ClusterSpec::new().job("a", ["z"]));
        assert_eq!(map.as_dict()[0].1, JobTasks::Dense(vec!["x", "y"]));
    }

    #[test]
    fn unknown_jobs_and_tasks_say_what_there_is() {
        let error = sample().num_tasks("wroker").unwrap_err();
        assert_eq!((error.code(), error.next()), (Code::NoSuchTask, Some("did you mean \"worker\"?")));
        let error = sample().task_address("ps", 0).unwrap_err();
        assert_eq!(error.to_string(), "job \"ps\" has no task 0: its indices are 1");
    }

    #[test]
    fn absurd_indices_do_not_fill_the_memory() {
        let spec = ClusterSpec::new().sparse_job("worker", [(0, "a"), (u32::MAX, "b")]);
        assert_eq!(spec.num_tasks("worker").unwrap(), 1);
    }
}
