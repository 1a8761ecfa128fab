//! The machines of a job and the roles that each of them runs.

use phalanx_base::{Code, Error, Result, nearest};

/// The machines of a job, their ports, and which of them run trainers and parameter servers.
#[derive(Clone, Debug, Default)]
pub struct NodePlan {
    /// The names or addresses of the machines.
    pub nodes: Vec<String>,
    /// The port of every trainer.
    pub worker_port: u16,
    /// The port of every parameter server.
    pub ps_port: u16,
    /// The nodes that run a trainer, the chief first; empty for all.
    pub workers_on: Vec<String>,
    /// The nodes that run a parameter server; empty for all.
    pub ps_on: Vec<String>,
    /// Whether there is an evaluator.
    pub evaluator: bool,
}

impl NodePlan {
    /// Returns the indices of the nodes that a flag names; of all nodes if it is empty.
    pub(crate) fn with_role(&self, flag: &str, names: &[String]) -> Result<Vec<usize>> {
        if names.is_empty() {
            return Ok((0..self.nodes.len()).collect());
        }
        let mut found = Vec::with_capacity(names.len());
        for name in names {
            let Some(node) = self.nodes.iter().position(|node| node == name) else {
                let error = Error::new(Code::Flags, format!("{flag} names {name:?}, which --nodes does not list"));
                return Err(match nearest(name, self.nodes.iter().map(String::as_str)) {
                    Some(near) => error.help(format!("did you mean {near:?}?")),
                    None => error.help(format!("the nodes are {}", self.nodes.join(", "))),
                });
            };
            if found.contains(&node) {
                return Err(Error::new(Code::Flags, format!("{flag} names {name:?} twice"))
                    .help("a node runs at most one task of a role"));
            }
            found.push(node);
        }
        Ok(found)
    }
}
