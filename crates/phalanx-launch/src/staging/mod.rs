//! Copies a program and its data to the nodes of a job before anything is started there.
//!
//! | file | contents |
//! | --- | --- |
//! | `paths` | what to copy, and how a node's view of it is recognised |
//! | `node` | one node: what it has, and the copy to it |
//! | `watched` | commands with a deadline, which end with this process's wish to stop |

mod node;
mod paths;
mod watched;

pub use node::{CopiedBy, NodeCopy};

use crate::{Placed, Signals, Ssh};
use node::Node;
use paths::{Markers, StagedPath};
use phalanx_base::{Code, Context, Error, Result};
use std::path::PathBuf;

/// The copies of files to the nodes of a job.
pub(crate) struct Staging<'a> {
    ssh: &'a Ssh,
    /// The working directory, which every node gets too.
    here: PathBuf,
    paths: Vec<StagedPath>,
    signals: &'a Signals,
}

impl<'a> Staging<'a> {
    /// Plans the copies of [`Ssh::stage`].
    ///
    /// # Errors
    /// If one of the paths does not exist here.
    pub(crate) fn new(ssh: &'a Ssh, signals: &'a Signals) -> Result<Self> {
        let here = std::env::current_dir().context(Code::Flags, "the working directory cannot be determined")?;
        let mut paths: Vec<StagedPath> = Vec::with_capacity(ssh.stage.len());
        for path in &ssh.stage {
            let path = StagedPath::of(path, &here)?;
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        Ok(Self { ssh, here, paths, signals })
    }

    /// Copies to all nodes at once. Nothing is copied before every node has answered.
    ///
    /// # Errors
    /// If a node cannot be reached or a copy fails, with the first such node.
    pub(crate) fn copy_to(&self, names: &[String], placed: &[Placed]) -> Result<Vec<NodeCopy>> {
        let mut wanted: Vec<usize> = placed.iter().map(|placed| placed.node).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let names = wanted.into_iter().filter_map(|node| names.get(node));
        let nodes: Vec<Node<'_>> = names.map(|name| Node { staging: self, name }).collect();
        let markers = Markers::put(&self.paths)?;
        let views = on_all(&nodes, |node| node.look(&markers))?;
        drop(markers);
        let pairs: Vec<_> = nodes.iter().zip(views).collect();
        on_all(&pairs, |(node, view)| node.copy(view))
    }
}

/// Calls `f` for every item on a thread of its own, and returns all results or the first error.
fn on_all<I: Sync, T: Send>(items: &[I], f: impl Fn(&I) -> Result<T> + Sync) -> Result<Vec<T>> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = items.iter().map(|item| scope.spawn(|| f(item))).collect();
        let crashed = || Error::new(Code::Internal, "a thread that copies files has panicked");
        let results: Vec<Result<T>> =
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(crashed()))).collect();
        results.into_iter().collect()
    })
}
