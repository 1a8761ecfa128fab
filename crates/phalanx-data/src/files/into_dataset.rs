//! From a source to a pipeline without a word in between.

use std::sync::Arc;

use phalanx_base::Result;

use crate::{Batch, Dataset, Share, Source};

/// Every source begins a pipeline: `csv("data/*.csv").label("income").shuffle(10_000).batch(128)`.
///
/// The methods are those of [`Dataset`] that a pipeline may begin with; [`IntoDataset::dataset`] leads to all of them.
pub trait IntoDataset: Sized {
    /// The rows of this source, part after part.
    fn dataset(self) -> Dataset;

    /// [`Dataset::batch`].
    fn batch(self, size: usize) -> Dataset {
        self.dataset().batch(size)
    }

    /// [`Dataset::shuffle`].
    fn shuffle(self, buffer: usize) -> Dataset {
        self.dataset().shuffle(buffer)
    }

    /// [`Dataset::repeat`].
    fn repeat(self) -> Dataset {
        self.dataset().repeat()
    }

    /// [`Dataset::map`].
    fn map(self, function: impl Fn(Batch) -> Result<Batch> + Send + Sync + 'static) -> Dataset {
        self.dataset().map(function)
    }

    /// [`Dataset::take`].
    fn take(self, count: u64) -> Dataset {
        self.dataset().take(count)
    }

    /// [`Dataset::skip`].
    fn skip(self, count: u64) -> Dataset {
        self.dataset().skip(count)
    }

    /// [`Dataset::shard`].
    fn shard(self, share: impl Into<Share>) -> Dataset {
        self.dataset().shard(share)
    }

    /// [`Dataset::prefetch`].
    fn prefetch(self, buffer: usize) -> Dataset {
        self.dataset().prefetch(buffer)
    }
}

impl<S: Source + 'static> IntoDataset for S {
    fn dataset(self) -> Dataset {
        Dataset::from_source(Arc::new(self))
    }
}
