//! The flags that determine the tasks of a job.

use crate::ssh::shell_quoted;
use crate::{JobShape, Layout, NodePlan, Placed};
use phalanx_base::{Code, Error, Result};

/// The flags that determine the tasks of a job.
#[derive(Clone, Debug, clap::Args)]
pub struct LayoutArgs {
    /// Number of parameter servers [default: 1 without --nodes]
    #[arg(long, value_name = "N", conflicts_with = "nodes")]
    pub ps: Option<usize>,
    /// Number of workers in addition to the chief [default: 1 without --nodes]
    #[arg(long, value_name = "N", conflicts_with = "nodes")]
    pub workers: Option<usize>,
    /// Add an evaluator
    #[arg(long)]
    pub evaluator: bool,
    /// Call the chief `master`, as older programs expect; a master evaluates itself
    #[arg(long, conflicts_with_all = ["nodes", "evaluator"])]
    pub master: bool,
    /// Machines of the job. Each runs a parameter server and a trainer: `master` on the first (`chief` with --evaluator), `worker` on the others
    #[arg(long, value_name = "IP,IP,…", value_delimiter = ',', requires_all = ["worker_port", "ps_port"])]
    pub nodes: Vec<String>,
    /// Port of the trainers on every node
    #[arg(long, value_name = "PORT", requires = "nodes")]
    pub worker_port: Option<u16>,
    /// Port of the parameter servers on every node
    #[arg(long, value_name = "PORT", requires = "nodes")]
    pub ps_port: Option<u16>,
    /// Nodes that run a trainer, the chief's first [default: all]
    #[arg(long, value_name = "IP,IP,…", value_delimiter = ',', requires = "nodes")]
    pub workers_on: Vec<String>,
    /// Nodes that run a parameter server [default: all]
    #[arg(long, value_name = "IP,IP,…", value_delimiter = ',', requires = "nodes")]
    pub ps_on: Vec<String>,
}

impl LayoutArgs {
    /// The cluster that the flags describe.
    ///
    /// # Errors
    /// If the flags contradict each other or no ports are free.
    pub fn layout(&self) -> Result<Layout> {
        match (self.worker_port, self.ps_port) {
            (Some(worker_port), Some(ps_port)) => Layout::nodes(&NodePlan {
                nodes: self.nodes.clone(),
                worker_port,
                ps_port,
                workers_on: self.workers_on.clone(),
                ps_on: self.ps_on.clone(),
                evaluator: self.evaluator,
            }),
            _ => Layout::local(&JobShape {
                ps: self.ps.unwrap_or(1),
                workers: self.workers.unwrap_or(1),
                evaluator: self.evaluator,
                chief: if self.master { "master" } else { "chief" },
            }),
        }
    }

    /// The same flags for a launcher on a node.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = vec![format!("--nodes={}", self.nodes.join(","))];
        words.extend(self.worker_port.map(|port| format!("--worker-port={port}")));
        words.extend(self.ps_port.map(|port| format!("--ps-port={port}")));
        for (flag, nodes) in [("--workers-on", &self.workers_on), ("--ps-on", &self.ps_on)] {
            words.extend((!nodes.is_empty()).then(|| format!("{flag}={}", nodes.join(","))));
        }
        words.extend(self.evaluator.then(|| "--evaluator".to_owned()));
        words
    }
}

/// The flags of `phalanx tf-config make`: the tasks of a job, or the host lists of programs that have the classic flags.
#[derive(Clone, Debug, clap::Args)]
pub struct MakeArgs {
    /// The tasks of the job.
    #[command(flatten)]
    pub layout: LayoutArgs,
    /// Addresses of the parameter servers, as in --ps_hosts of older programs
    #[arg(long = "ps_hosts", alias = "ps-hosts", value_name = "HOST:PORT,…", requires = "worker_hosts")]
    pub ps_hosts: Option<String>,
    /// Addresses of the workers, of which the first becomes the chief
    #[arg(long = "worker_hosts", alias = "worker-hosts", value_name = "HOST:PORT,…",
          conflicts_with_all = ["ps", "workers", "nodes", "master"])]
    pub worker_hosts: Option<String>,
    /// Run directory that every TF_CONFIG names
    #[arg(long, value_name = "DIR")]
    pub model_dir: Option<String>,
}

impl MakeArgs {
    /// The `TF_CONFIG` of every task, one per line.
    ///
    /// # Errors
    /// If the flags contradict each other, an address is invalid or no ports are free.
    pub fn printed(&self) -> Result<String> {
        if self.model_dir.as_deref() == Some("") {
            return Err(
                Error::new(Code::ConfigModelDir, "model_dir is empty").help("name a directory, or leave it out")
            );
        }
        let layout = match &self.worker_hosts {
            Some(workers) => Layout::hosts(self.ps_hosts.as_deref().unwrap_or(""), workers, self.layout.evaluator)?,
            None => self.layout.layout()?,
        };
        let layout = layout.model_dir(self.model_dir.clone());
        Ok(print_tf_configs(&layout, layout.tasks()))
    }
}

/// Formats each task's `TF_CONFIG` as `worker/0  TF_CONFIG='{…}'`, to paste into a shell.
#[must_use]
pub(crate) fn print_tf_configs(layout: &Layout, tasks: &[Placed]) -> String {
    let width = tasks.iter().map(|placed| placed.task.to_string().len()).max().unwrap_or(0);
    let line = |placed: &Placed| {
        format!("{:<width$}  TF_CONFIG={}\n", placed.task.to_string(), shell_quoted(&layout.tf_config(placed)))
    };
    tasks.iter().map(line).collect()
}
