//! The context that an input function gets about the workers.

use phalanx_base::{Code, Error, Result};

/// Which of how many input pipelines this is, and how many replicas all of them feed.
///
/// ```
/// use phalanx_data::InputContext;
/// let cx = InputContext { num_input_pipelines: 2, input_pipeline_id: 1, num_replicas_in_sync: 4 };
/// assert_eq!(cx.get_per_replica_batch_size(64)?, 16);
/// assert!(cx.get_per_replica_batch_size(30).is_err());
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputContext {
    /// How many workers read input.
    pub num_input_pipelines: usize,
    /// Which of them this is, from 0.
    pub input_pipeline_id: usize,
    /// How many replicas compute one step together, over all workers.
    pub num_replicas_in_sync: usize,
}

impl Default for InputContext {
    /// The only worker with the only replica.
    fn default() -> Self {
        Self { num_input_pipelines: 1, input_pipeline_id: 0, num_replicas_in_sync: 1 }
    }
}

impl InputContext {
    /// The rows one replica gets of a global batch.
    ///
    /// # Errors
    /// When the batch cannot be divided evenly, as in TensorFlow.
    pub fn get_per_replica_batch_size(&self, global_batch_size: usize) -> Result<usize> {
        let replicas = self.num_replicas_in_sync;
        if replicas == 0 || !global_batch_size.is_multiple_of(replicas) {
            let what = format!(
                "the global_batch_size {global_batch_size} is not divisible by num_replicas_in_sync {replicas}"
            );
            return Err(Error::new(Code::BadSetting, what)
                .at("get_per_replica_batch_size")
                .help(format!("choose a multiple of {}", replicas.max(1))));
        }
        Ok(global_batch_size / replicas)
    }

    /// How many replicas this worker feeds.
    ///
    /// # Errors
    /// When the replicas do not divide evenly over the workers, or the numbers contradict each other.
    pub fn replicas_per_pipeline(&self) -> Result<usize> {
        let (pipelines, id, replicas) = (self.num_input_pipelines, self.input_pipeline_id, self.num_replicas_in_sync);
        if id >= pipelines {
            let what = format!("input pipeline {id} of {pipelines} does not exist");
            return Err(Error::new(Code::BadSetting, what).at("InputContext").help("pipelines are counted from 0"));
        }
        if replicas == 0 || !replicas.is_multiple_of(pipelines) {
            let what = format!("{replicas} replicas cannot be divided over {pipelines} input pipelines");
            return Err(Error::new(Code::BadSetting, what)
                .at("InputContext")
                .help("give every worker the same number of replicas"));
        }
        Ok(replicas / pipelines)
    }
}
