//! Every source begins a dataset: `csv("train-*.csv").shuffle(10_000).repeat().batch(128)`.

use super::{Dataset, DatasetIter, Share};
use crate::{Batch, Parallel, Source};
use phalanx_base::Result;
use std::sync::Arc;

impl<S: Source + 'static> From<S> for Dataset {
    fn from(source: S) -> Self {
        Self::from_source(Arc::new(source))
    }
}

/// The methods of [`Dataset`] that a pipeline may begin with, on every [`Source`].
///
/// ```
/// use phalanx_data::{Input, csv};
/// let folder = tempfile::tempdir().unwrap();
/// std::fs::write(folder.path().join("a.csv"), "age,income\n39,0\n50,1\n").unwrap();
/// let data = csv(folder.path().join("*.csv")).label("income").shuffle(10_000).repeat().batch(3);
/// let batch = data.iter()?.next().unwrap()?;
/// assert_eq!((batch.rows(), batch.label().unwrap().rows()), (3, 3));
/// # Ok::<(), phalanx_base::Error>(())
/// ```
pub trait Input: Source + Sized + 'static {
    /// The rows, file after file.
    fn dataset(self) -> Dataset {
        Dataset::from(self)
    }

    /// The rows, `cycle` files at a time by turns; see [`Dataset::from_source_by_turns`].
    fn by_turns(self, cycle: usize) -> Dataset {
        Dataset::from_source_by_turns(Arc::new(self), cycle)
    }

    /// See [`Dataset::shard`].
    fn shard(self, share: impl Into<Share>) -> Dataset {
        self.dataset().shard(share)
    }

    /// See [`Dataset::shuffle`].
    fn shuffle(self, buffer: usize) -> Dataset {
        self.dataset().shuffle(buffer)
    }

    /// See [`Dataset::shuffle_seeded`].
    fn shuffle_seeded(self, buffer: usize, seed: u64) -> Dataset {
        self.dataset().shuffle_seeded(buffer, seed)
    }

    /// See [`Dataset::repeat`].
    fn repeat(self) -> Dataset {
        self.dataset().repeat()
    }

    /// See [`Dataset::batch`].
    fn batch(self, size: usize) -> Dataset {
        self.dataset().batch(size)
    }

    /// See [`Dataset::map`].
    fn map(self, function: impl Fn(Batch) -> Result<Batch> + Send + Sync + 'static) -> Dataset {
        self.dataset().map(function)
    }

    /// See [`Dataset::map_batches`].
    fn map_batches(
        self,
        parallel: Parallel,
        function: impl Fn(Batch) -> Result<Batch> + Send + Sync + 'static,
    ) -> Dataset {
        self.dataset().map_batches(parallel, function)
    }

    /// See [`Dataset::filter`].
    fn filter(self, keep: impl Fn(&Batch) -> Result<bool> + Send + Sync + 'static) -> Dataset {
        self.dataset().filter(keep)
    }

    /// See [`Dataset::take`].
    fn take(self, count: u64) -> Dataset {
        self.dataset().take(count)
    }

    /// See [`Dataset::skip`].
    fn skip(self, count: u64) -> Dataset {
        self.dataset().skip(count)
    }

    /// See [`Dataset::prefetch`].
    fn prefetch(self, buffer: usize) -> Dataset {
        self.dataset().prefetch(buffer)
    }

    /// See [`Dataset::cache`].
    fn cache(self) -> Dataset {
        self.dataset().cache()
    }

    /// Starts a pass over the rows; see [`Dataset::iter`].
    ///
    /// # Errors
    /// When a file cannot be opened.
    fn iter(self) -> Result<DatasetIter> {
        self.dataset().iter()
    }
}

impl<S: Source + Sized + 'static> Input for S {}
