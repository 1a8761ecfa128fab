//! The tasks of a job, where they listen, and their `TF_CONFIG`.

use crate::{NodePlan, ReservedPorts};
use phalanx_base::{Code, Error, Result, Role, TaskId};
use phalanx_cluster::{ClusterSpec, Flags, Json, TaskConfig};
use std::sync::Arc;

/// A task and where it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The task.
    pub task: TaskId,
    /// Its job name in `TF_CONFIG`: the name of its role, or `master` for a chief.
    pub job: &'static str,
    /// The index of its node; 0 if the job runs on one machine.
    pub node: usize,
}

/// The cluster and its tasks.
///
/// ```
/// use phalanx_launch::{Layout, NodePlan};
/// let nodes = ["10.0.0.1", "10.0.0.2"].map(str::to_owned).to_vec();
/// let plan = NodePlan { nodes, worker_port: 2223, ps_port: 2222, ..NodePlan::default() };
/// let layout = Layout::nodes(&plan).unwrap();
/// let texts: Vec<String> = layout.tasks().iter().map(|placed| layout.tf_config(placed)).collect();
/// assert_eq!(layout.tasks()[0].task.to_string(), "chief/0");
/// assert!(texts[0].contains(r#""master": ["10.0.0.1:2223"], "worker": ["10.0.0.2:2223"]"#));
/// assert!(texts[0].ends_with(r#""task": {"type": "master", "index": 0}, "environment": "cloud"}"#));
/// ```
#[derive(Clone, Debug)]
pub struct Layout {
    cluster: ClusterSpec,
    tasks: Vec<Placed>,
    nodes: Vec<String>,
    model_dir: Option<String>,
    /// Held as long as the layout, so that a restarted task finds its address free.
    reserved: Option<Arc<ReservedPorts>>,
}

/// The number of tasks of each role in a job on one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobShape {
    /// The number of parameter servers.
    pub ps: usize,
    /// The number of workers in addition to the chief.
    pub workers: usize,
    /// Whether there is an evaluator.
    pub evaluator: bool,
    /// The job name of the chief: `chief`, or `master` as before TensorFlow 1.4.
    pub chief: &'static str,
}

impl Layout {
    /// A job on this machine, on ports that stay reserved as long as this layout or a clone of it exists.
    ///
    /// # Errors
    /// If the operating system has no free ports.
    pub fn local(shape: &JobShape) -> Result<Self> {
        let reserved = ReservedPorts::new(1 + shape.workers + shape.ps)?;
        let mut addresses = reserved.iter().map(|port| format!("127.0.0.1:{port}"));
        let mut cluster = ClusterSpec::new().job(shape.chief, addresses.next());
        for (job, count) in [("worker", shape.workers), ("ps", shape.ps)] {
            if count > 0 {
                cluster = cluster.job(job, addresses.by_ref().take(count).collect::<Vec<_>>());
            }
        }
        drop(addresses);
        let reserved = Some(Arc::new(reserved));
        let mut layout = Self { reserved, ..Self::of(cluster) };
        layout.place(shape, |_| 0);
        Ok(layout)
    }

    /// The layout of a training platform. By default every node runs a parameter server and a trainer: `master` on the first
    /// node, `worker` on the others. With an evaluator, which runs on the first trainer's node, the `master` is called `chief`,
    /// because a `master` evaluates itself and TensorFlow refuses an evaluator beside it.
    ///
    /// # Errors
    /// If a node has no name, is listed twice or has no task, if a role names a node that is not listed, or if both ports are
    /// the same.
    pub fn nodes(plan: &NodePlan) -> Result<Self> {
        let nodes = &plan.nodes;
        if nodes.is_empty() || nodes.iter().any(|node| node.trim().is_empty()) {
            return Err(Error::new(Code::Flags, "a node has no name").help("write --nodes 10.0.0.1,10.0.0.2"));
        }
        if let Some(twice) = nodes.iter().enumerate().find(|(i, node)| nodes[..*i].contains(node)) {
            return Err(Error::new(Code::ConfigAddress, format!("node {} is listed twice", twice.1)));
        }
        if plan.worker_port == plan.ps_port {
            return Err(Error::new(Code::ConfigAddress, format!("both tasks of a node have port {}", plan.ps_port))
                .help("give --worker-port and --ps-port different numbers"));
        }
        let trainers = plan.with_role("--workers-on", &plan.workers_on)?;
        let servers = plan.with_role("--ps-on", &plan.ps_on)?;
        if let Some(idle) = (0..nodes.len()).find(|node| !trainers.contains(node) && !servers.contains(node)) {
            return Err(Error::new(Code::Flags, format!("node {} has no task", nodes[idle]))
                .because("neither --workers-on nor --ps-on names it")
                .help("name it in one of them, or leave it out of --nodes"));
        }
        let at = |node: usize, port| {
            let node = &nodes[node];
            if node.contains(':') && !node.starts_with('[') {
                format!("[{node}]:{port}")
            } else {
                format!("{node}:{port}")
            }
        };
        let chief = if plan.evaluator { "chief" } else { "master" };
        let shape = JobShape { ps: servers.len(), workers: trainers.len() - 1, evaluator: plan.evaluator, chief };
        let mut cluster = ClusterSpec::new().job(chief, [at(trainers[0], plan.worker_port)]);
        if shape.workers > 0 {
            cluster = cluster.job("worker", trainers[1..].iter().map(|&node| at(node, plan.worker_port)));
        }
        if shape.ps > 0 {
            cluster = cluster.job("ps", servers.iter().map(|&node| at(node, plan.ps_port)));
        }
        let mut layout = Self::of(cluster);
        layout.nodes.clone_from(nodes);
        layout.place(&shape, |task| match task.role {
            Role::Worker => trainers[task.index as usize + 1],
            Role::Ps => servers[task.index as usize],
            Role::Chief | Role::Evaluator => trainers[0],
        });
        Ok(layout)
    }

    /// The cluster of the flags `--ps_hosts` and `--worker_hosts`: the first worker is the chief.
    ///
    /// # Errors
    /// If there is no worker, or an address is invalid.
    pub fn hosts(ps_hosts: &str, worker_hosts: &str, evaluator: bool) -> Result<Self> {
        let flags = Flags {
            ps_hosts: Some(ps_hosts.to_owned()),
            worker_hosts: Some(worker_hosts.to_owned()),
            job_name: Some("worker".to_owned()),
            task_index: Some(0),
        };
        let config = TaskConfig::from_flags(&flags)?;
        let (ps, workers) = (config.ps_addresses().len(), config.workers().len());
        let shape = JobShape { ps, workers, evaluator, chief: "chief" };
        let mut layout = Self::of(config.cluster().clone());
        layout.place(&shape, |_| 0);
        Ok(layout)
    }

    fn of(cluster: ClusterSpec) -> Self {
        Self { cluster, tasks: Vec::new(), nodes: Vec::new(), model_dir: None, reserved: None }
    }

    /// Sets the run directory that every `TF_CONFIG` names, so that the program needs no flag for it.
    #[must_use]
    pub fn model_dir(mut self, dir: Option<String>) -> Self {
        self.model_dir = dir;
        self
    }

    fn place(&mut self, shape: &JobShape, node: impl Fn(TaskId) -> usize) {
        let counts = [(Role::Chief, 1), (Role::Worker, shape.workers), (Role::Ps, shape.ps)];
        let counts = counts.into_iter().chain([(Role::Evaluator, usize::from(shape.evaluator))]);
        let ids = counts.flat_map(|(role, count)| (0..count as u32).map(move |index| TaskId::new(role, index)));
        let master = shape.chief == "master";
        self.tasks = ids.map(|task| Placed { task, job: job_name(task, master), node: node(task) }).collect();
    }

    /// The ports that were chosen for this job; none if its addresses were given.
    pub(crate) fn reserved_ports(&self) -> impl Iterator<Item = u16> {
        self.reserved.iter().flat_map(|reserved| reserved.iter())
    }

    /// The cluster spec.
    #[must_use]
    pub fn cluster(&self) -> &ClusterSpec {
        &self.cluster
    }

    /// Every task: the chief, workers, parameter servers, the evaluator.
    #[must_use]
    pub fn tasks(&self) -> &[Placed] {
        &self.tasks
    }

    /// The names of the nodes; empty if the job runs on this machine.
    #[must_use]
    pub fn node_names(&self) -> &[String] {
        &self.nodes
    }

    /// The tasks of one node.
    ///
    /// # Errors
    /// If there is no such node.
    pub fn on_node(&self, node: usize) -> Result<Vec<Placed>> {
        if node >= self.nodes.len().max(1) {
            let what = format!("there is no node {node}");
            return Err(Error::new(Code::Flags, what).because(format!("--nodes lists {}", self.nodes.len())));
        }
        Ok(self.tasks.iter().filter(|placed| placed.node == node).cloned().collect())
    }

    /// The task whose exit ends the job: the chief, or worker 0 if there is none.
    #[must_use]
    pub fn chief(&self) -> Option<TaskId> {
        let roles = [Role::Chief, Role::Worker];
        roles.into_iter().find_map(|role| self.tasks.iter().map(|placed| placed.task).find(|task| task.role == role))
    }

    /// The `TF_CONFIG` of a task. That of a job on several machines has `"environment": "cloud"`, without which programs that were
    /// written for TensorFlow before 1.4 start no server.
    #[must_use]
    pub fn tf_config(&self, placed: &Placed) -> String {
        let task = [("type", Json::text(placed.job)), ("index", Json::number(placed.task.index))];
        let mut entries = vec![("cluster", self.cluster.to_json()), ("task", Json::object(task))];
        if self.has_several_hosts() {
            entries.push(("environment", Json::text("cloud")));
        }
        entries.extend(self.model_dir.as_ref().map(|dir| ("model_dir", Json::text(dir))));
        Json::object(entries).to_string()
    }

    fn has_several_hosts(&self) -> bool {
        let address =
            |placed: &Placed| self.cluster.task_address(placed.job, placed.task.index).ok().map(str::to_owned);
        let host = |address: String| address.rsplit_once(':').map(|(host, _)| host.to_owned());
        let hosts: std::collections::BTreeSet<String> =
            self.tasks.iter().filter_map(address).filter_map(host).collect();
        hosts.len() > 1
    }

    /// A summary such as "chief, 2 workers, 1 ps".
    #[must_use]
    pub fn in_words(&self) -> String {
        let count = |role| self.tasks.iter().filter(|placed| placed.task.role == role).count();
        let words = Role::ALL.into_iter().filter(|&role| count(role) > 0).map(|role| match (role, count(role)) {
            (Role::Chief | Role::Evaluator, 1) => role.to_string(),
            (Role::Worker, n) if n > 1 => format!("{n} workers"),
            (role, n) => format!("{n} {role}"),
        });
        words.collect::<Vec<_>>().join(", ")
    }
}

fn job_name(task: TaskId, master: bool) -> &'static str {
    if master && task.role == Role::Chief { "master" } else { task.role.as_str() }
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
