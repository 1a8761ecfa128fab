//! Workers that step together, each with a model of its own.

use crate::ServerOptions;
use crate::strategy::Workers;
use phalanx_base::{Error, Result};
use phalanx_cluster::TaskConfig;
use phalanx_collective::Reduce;

/// The chief and the workers of a cluster without parameter servers, which make every step together. All of them must make
/// the same calls in the same order.
pub struct WorkerGroup(Workers);

impl WorkerGroup {
    /// Connects to the other trainers of the cluster and waits for all of them. `None` if this process is the only one.
    ///
    /// # Errors
    /// Fails if this task is no trainer, its port cannot be used, or a worker does not join before the deadline.
    pub fn join(config: &TaskConfig, options: &ServerOptions) -> Result<Option<Self>> {
        Ok(Workers::join(config, options)?.map(Self))
    }

    /// Returns the rank of this worker; 0 is the chief, or the first worker if there is none.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.0.rank()
    }

    /// Returns the number of workers.
    #[must_use]
    pub fn size(&self) -> usize {
        self.0.size()
    }

    /// Returns the bytes of every worker, by rank. Waits long for workers that save or open their input.
    ///
    /// # Errors
    /// Fails if a worker is lost.
    pub fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.0.patiently(|group| group.all_gather(bytes))
    }

    /// Replaces the numbers by their sums over all workers.
    ///
    /// # Errors
    /// Fails if a worker is lost, or has tensors of other lengths.
    pub fn all_reduce(&self, tensors: &mut [&mut [f32]]) -> Result<()> {
        self.0.group().all_reduce_many(tensors, Reduce::Sum)
    }

    /// Waits until every worker is here.
    ///
    /// # Errors
    /// Fails if a worker is lost.
    pub fn barrier(&self) -> Result<()> {
        self.0.patiently(phalanx_collective::Group::barrier)
    }

    /// Ends the group: the other workers fail with this error.
    pub fn abort(&self, error: &Error) {
        self.0.group().abort(error.clone());
    }

    /// Runs `f` in the task's log scope: the events that it emits carry the task.
    pub fn in_scope<T>(&self, f: impl FnOnce() -> T) -> T {
        self.0.in_scope(f)
    }
}
