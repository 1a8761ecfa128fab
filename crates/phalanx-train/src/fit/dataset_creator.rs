//! Data that every reader makes for itself.

use phalanx_base::Result;
use phalanx_data::{Dataset, InputContext};
use std::sync::Arc;

type Function = dyn Fn(&InputContext) -> Result<Dataset> + Send + Sync;

/// Keras' `DatasetCreator`: a function that makes a batched dataset, and is told for which of how many readers. Under a
/// [`ParameterServerStrategy`](crate::ParameterServerStrategy) every worker calls it; what it does not share out, every
/// worker sees. Elsewhere it is called as for the only reader, and the dataset is divided like any other.
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
    /// One that calls this function.
    #[must_use]
    pub fn new(function: impl Fn(&InputContext) -> Result<Dataset> + Send + Sync + 'static) -> Self {
        Self(Arc::new(function))
    }

    /// The dataset of one reader.
    ///
    /// # Errors
    /// What the function returns.
    pub fn create(&self, cx: &InputContext) -> Result<Dataset> {
        (self.0)(cx)
    }
}

impl std::fmt::Debug for DatasetCreator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DatasetCreator")
    }
}
