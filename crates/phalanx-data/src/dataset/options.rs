//! Settings that hold for a whole pipeline.

use crate::shard::AutoShardPolicy;

/// Lets the library choose the number of threads or the size of a buffer.
pub const AUTOTUNE: usize = usize::MAX;

/// Settings of a dataset; `None` keeps the previous setting, or the default.
///
/// ```
/// use phalanx_data::{AutoShardPolicy, Dataset, Options};
/// let data = Dataset::range(0, 3, 1)
///     .with_options(Options { deterministic: Some(false), ..Options::default() })
///     .with_options(Options { auto_shard_policy: Some(AutoShardPolicy::Data), ..Options::default() });
/// assert_eq!(data.options().deterministic, Some(false));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether parallel stages without a setting of their own keep the order of their input. Default: true.
    pub deterministic: Option<bool>,
    /// How workers share the input. Default: [`AutoShardPolicy::Auto`].
    pub auto_shard_policy: Option<AutoShardPolicy>,
    /// How many threads [`AUTOTUNE`] stands for. Default: as many as the machine has cores.
    pub threads: Option<usize>,
}

impl Options {
    /// These settings, and `self` where they say nothing: later options win.
    #[must_use]
    pub(crate) fn then(self, later: Self) -> Self {
        Self {
            deterministic: later.deterministic.or(self.deterministic),
            auto_shard_policy: later.auto_shard_policy.or(self.auto_shard_policy),
            threads: later.threads.or(self.threads),
        }
    }

    /// The number of threads a stage that asked for `wanted` gets.
    pub(crate) fn threads_for(self, wanted: usize) -> usize {
        let own = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        if wanted == AUTOTUNE { self.threads.unwrap_or_else(own).max(1) } else { wanted.max(1) }
    }
}
