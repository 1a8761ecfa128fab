//! Datasets that every worker creates for itself.

use phalanx_base::Result;
use phalanx_data::{Dataset, InputContext};
use std::sync::Arc;

type Function = dyn Fn(&InputContext) -> Result<Dataset> + Send + Sync;

/// Keras' `DatasetCreator`: a function that creates a batched dataset from an [`InputContext`]. With
/// parameter servers ([`Strategy::parameter_server`](crate::Strategy::parameter_server)) every worker calls it, and sees
/// all rows unless the function shards them. Elsewhere it is called once, as for a single reader, and the dataset is distributed like any
/// other.
///
/// ```
/// use phalanx_data::Dataset;
/// use phalanx_train::fit::{Data, DatasetCreator};
/// let data: Data = DatasetCreator::new(|cx| Ok(Dataset::range(0, 100, 1).shard(cx).batch(10))).into();
/// # let _ = data;
/// ```
#[derive(Clone)]
pub struct DatasetCreator(Arc<Function>);

impl DatasetCreator {
    /// Wraps a function.
    #[must_use]
    pub fn new(function: impl Fn(&InputContext) -> Result<Dataset> + Send + Sync + 'static) -> Self {
        Self(Arc::new(function))
    }

    /// Creates the dataset of one reader.
    ///
    /// # Errors
    /// Returns the function's error.
    pub fn create(&self, cx: &InputContext) -> Result<Dataset> {
        (self.0)(cx)
    }
}

impl std::fmt::Debug for DatasetCreator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DatasetCreator")
    }
}
