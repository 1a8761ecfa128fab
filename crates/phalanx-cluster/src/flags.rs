//! The flags `--ps_hosts --worker_hosts --job_name --task_index`, an alternative to `TF_CONFIG`.

use phalanx_base::{Address, Code, Error, Result, Role, Snippet, TaskId, nearest};

use crate::ClusterSpec;

/// The four flags as given.
///
/// The first worker is the chief, as in the programs that have these flags. So the index of every other worker is one
/// less in the cluster than on the command line.
///
/// ```
/// use phalanx_cluster::{Flags, TaskConfig};
/// let flags = Flags {
///     ps_hosts: Some("a:1".into()),
///     worker_hosts: Some("b:1,c:1".into()),
///     job_name: Some("worker".into()),
///     task_index: Some(1),
/// };
/// let config = TaskConfig::from_flags(&flags).unwrap();
/// assert_eq!(config.task().unwrap().to_string(), "worker/0");
/// assert_eq!(config.chief().unwrap().1.to_string(), "b:1");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// `--ps_hosts=a:1,b:1`
    pub ps_hosts: Option<String>,
    /// `--worker_hosts=a:1,b:1`
    pub worker_hosts: Option<String>,
    /// `--job_name=ps`, `worker` or `evaluator`
    pub job_name: Option<String>,
    /// `--task_index=0`; optional if the job has one task.
    pub task_index: Option<i64>,
}

/// The values of `--job_name`.
const JOBS: [&str; 3] = ["worker", "ps", "evaluator"];

impl Flags {
    /// Returns whether no flag was given, so that there is no cluster.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the cluster and the task that the flags describe.
    pub(crate) fn read(&self) -> Result<(ClusterSpec, TaskId)> {
        let workers = hosts("--worker_hosts", self.worker_hosts.as_deref())?;
        let servers = hosts("--ps_hosts", self.ps_hosts.as_deref())?;
        let role = self.role()?;
        if workers.is_empty() {
            let error = flag_error("--worker_hosts is missing").because("the first worker is the chief");
            return Err(error.help("list every worker: --worker_hosts=host:port,host:port"));
        }
        if role == Role::Ps && servers.is_empty() {
            let error = flag_error("--job_name=ps contradicts the missing --ps_hosts");
            return Err(error.help("list every parameter server: --ps_hosts=host:port,host:port"));
        }
        let index = self.index(role, if role == Role::Ps { servers.len() } else { workers.len() })?;
        let (chief, others) = workers.split_first().map_or(("", &[][..]), |(chief, others)| (*chief, others));
        let mut spec = ClusterSpec::new().job("chief", [chief]);
        for (job, list) in [("worker", others), ("ps", &servers)] {
            if !list.is_empty() {
                spec = spec.job(job, list.iter().copied());
            }
        }
        let task = match (role, index) {
            (Role::Worker, 0) => TaskId::new(Role::Chief, 0),
            (Role::Worker, index) => TaskId::new(Role::Worker, index - 1),
            (role, index) => TaskId::new(role, index),
        };
        Ok((spec, task))
    }

    fn role(&self) -> Result<Role> {
        let name = self.job_name.as_deref().ok_or_else(|| {
            flag_error("--job_name is missing").help("set this process's task: --job_name=worker --task_index=0")
        })?;
        match name {
            "worker" => Ok(Role::Worker),
            "ps" => Ok(Role::Ps),
            "evaluator" => Ok(Role::Evaluator),
            "chief" | "master" => {
                let error = flag_error(format!("--job_name is {name:?}")).because("the first worker is the chief");
                Err(error.help("write --job_name=worker --task_index=0"))
            }
            _ => {
                let snippet = Snippet::new("--job_name", name, 0..name.len(), "no such job");
                let error = flag_error(format!("there is no job {name:?}")).snippet(snippet);
                Err(match nearest(name, JOBS) {
                    Some(near) => error.help(format!("did you mean {near:?}?")),
                    None => error.help("--job_name is worker, ps or evaluator"),
                })
            }
        }
    }

    fn index(&self, role: Role, count: usize) -> Result<u32> {
        let count = if role == Role::Evaluator { 1 } else { count };
        match self.task_index {
            None if count == 1 => Ok(0),
            None => {
                Err(flag_error("--task_index is missing").because(format!("there are {count} tasks of job {role}")))
            }
            Some(index) => {
                let found = u32::try_from(index).ok().filter(|&index| (index as usize) < count);
                found.ok_or_else(|| {
                    let text = index.to_string();
                    let range = if count == 1 { "only 0".to_owned() } else { format!("0 to {}", count - 1) };
                    flag_error(format!("job {role} has no task {index}"))
                        .because(format!("its indices are {range}"))
                        .snippet(Snippet::new("--task_index", &text, 0..text.len(), "no such task"))
                })
            }
        }
    }
}

/// Splits a list into its addresses. A flag that is missing or empty has none.
fn hosts<'a>(flag: &str, list: Option<&'a str>) -> Result<Vec<&'a str>> {
    let list = list.unwrap_or_default();
    if list.trim().is_empty() {
        return Ok(Vec::new());
    }
    let mut at = 0;
    list.split(',')
        .map(|host| {
            let span = at..at + host.len();
            at = span.end + 1;
            match host.trim() {
                "" => {
                    let snippet = Snippet::new(flag, list, span, "an address is missing here");
                    Err(flag_error(format!("{flag} has an empty address")).snippet(snippet))
                }
                host => Address::read(host, |why| Snippet::new(flag, list, span, why)).map(|_| host),
            }
        })
        .collect()
}

fn flag_error(what: impl Into<String>) -> Error {
    Error::new(Code::Flags, what)
}
