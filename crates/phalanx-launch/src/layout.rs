//! The tasks of a job, where they listen, and their `TF_CONFIG`.

use crate::ReservedPorts;
use phalanx_base::{Code, Error, Result, Role, TaskId};
use phalanx_cluster::{ClusterSpec, Json};
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
/// use phalanx_launch::Layout;
/// let nodes = ["10.0.0.1", "10.0.0.2"].map(str::to_owned);
/// let layout = Layout::nodes(&nodes, 2223, 2222, false).unwrap();
/// let texts: Vec<String> = layout.tasks().iter().map(|placed| layout.tf_config(placed)).collect();
/// assert_eq!(layout.tasks()[0].task.to_string(), "chief/0");
/// assert!(texts[0].contains(r#""master": ["10.0.0.1:2223"], "worker": ["10.0.0.2:2223"]"#));
/// assert!(texts[0].ends_with(r#""task": {"type": "master", "index": 0}}"#));
/// ```
#[derive(Clone, Debug)]
pub struct Layout {
    cluster: ClusterSpec,
    tasks: Vec<Placed>,
    nodes: Vec<String>,
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
        let mut layout = Self { cluster, tasks: Vec::new(), nodes: Vec::new(), reserved };
        layout.place(shape, |_| 0);
        Ok(layout)
    }

    /// The layout of a training platform: a parameter server and a trainer on every node. The trainer of the first node is `master`,
    /// the others are `worker`s. An evaluator runs on the first node.
    ///
    /// # Errors
    /// If a node has no name or is listed twice, or if both ports are the same.
    pub fn nodes(nodes: &[String], worker_port: u16, ps_port: u16, evaluator: bool) -> Result<Self> {
        if nodes.is_empty() || nodes.iter().any(|node| node.trim().is_empty()) {
            return Err(Error::new(Code::Flags, "a node has no name").help("write --nodes 10.0.0.1,10.0.0.2"));
        }
        if let Some(twice) = nodes.iter().enumerate().find(|(i, node)| nodes[..*i].contains(node)) {
            return Err(Error::new(Code::ConfigAddress, format!("node {} is listed twice", twice.1)));
        }
        if worker_port == ps_port {
            return Err(Error::new(Code::ConfigAddress, format!("both tasks of a node have port {ps_port}"))
                .help("give --worker-port and --ps-port different numbers"));
        }
        let at = |node: &String, port| {
            if node.contains(':') && !node.starts_with('[') {
                format!("[{node}]:{port}")
            } else {
                format!("{node}:{port}")
            }
        };
        let mut cluster = ClusterSpec::new().job("master", [at(&nodes[0], worker_port)]);
        if nodes.len() > 1 {
            cluster = cluster.job("worker", nodes[1..].iter().map(|node| at(node, worker_port)));
        }
        let cluster = cluster.job("ps", nodes.iter().map(|node| at(node, ps_port)));
        let mut layout = Self { cluster, tasks: Vec::new(), nodes: nodes.to_vec(), reserved: None };
        let shape = JobShape { ps: nodes.len(), workers: nodes.len() - 1, evaluator, chief: "master" };
        layout.place(&shape, |task| match task.role {
            Role::Worker => task.index as usize + 1,
            Role::Ps => task.index as usize,
            Role::Chief | Role::Evaluator => 0,
        });
        Ok(layout)
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

    /// The `TF_CONFIG` of a task.
    #[must_use]
    pub fn tf_config(&self, placed: &Placed) -> String {
        let task = [("type", Json::text(placed.job)), ("index", Json::number(placed.task.index))];
        Json::object([("cluster", self.cluster.to_json()), ("task", Json::object(task))]).to_string()
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
mod tests {
    use super::*;
    use phalanx_cluster::TaskConfig;

    #[test]
    fn a_local_job_lists_every_task_once_and_the_evaluator_outside_the_cluster() {
        let shape = JobShape { ps: 2, workers: 1, evaluator: true, chief: "chief" };
        let layout = Layout::local(&shape).unwrap();
        let ids: Vec<String> = layout.tasks().iter().map(|placed| placed.task.to_string()).collect();
        assert_eq!(ids, ["chief/0", "worker/0", "ps/0", "ps/1", "evaluator/0"]);
        assert_eq!(layout.cluster().jobs(), ["chief", "worker", "ps"]);
        assert_eq!(layout.in_words(), "chief, 1 worker, 2 ps, evaluator");
        for placed in layout.tasks() {
            let config = TaskConfig::from_tf_config(Some(&layout.tf_config(placed))).unwrap();
            assert_eq!(config.task(), Some(placed.task));
        }
    }

    #[test]
    fn nodes_have_a_server_and_a_trainer_each() {
        let nodes: Vec<String> = (1..=4).map(|i| format!("10.0.0.{i}")).collect();
        let layout = Layout::nodes(&nodes, 2223, 2222, false).unwrap();
        assert_eq!(layout.tasks().len(), 8);
        let second: Vec<String> = layout.on_node(1).unwrap().iter().map(|placed| placed.task.to_string()).collect();
        assert_eq!(second, ["worker/0", "ps/1"]);
        assert_eq!(layout.cluster().task_address("ps", 3).unwrap(), "10.0.0.4:2222");
        assert_eq!(layout.on_node(4).unwrap_err().code(), Code::Flags);
    }

    #[test]
    fn mistakes_are_reported() {
        let nodes = ["a", "a"].map(str::to_owned);
        assert!(Layout::nodes(&nodes, 1, 2, false).unwrap_err().to_string().contains("twice"));
        assert!(Layout::nodes(&nodes[..1], 2, 2, false).unwrap_err().to_string().contains("port 2"));
        assert_eq!(Layout::nodes(&[], 1, 2, false).unwrap_err().code(), Code::Flags);
        let layout = Layout::nodes(&["::1".to_owned()], 1, 2, true).unwrap();
        assert_eq!(layout.cluster().task_address("master", 0).unwrap(), "[::1]:1");
    }
}
