//! Datasets start from sources: `csv("train-*.csv").shuffle(10_000).repeat().batch(128)`.

use super::{Dataset, DatasetIter, ShardSpec};
use crate::{Batch, Parallel, Source};
use phalanx_base::Result;
use std::sync::Arc;

impl<S: Source + 'static> From<S> for Dataset {
    fn from(source: S) -> Self {
        Self::from_source(Arc::new(source))
    }
}

/// Defines methods that turn a source into a dataset and call the method of that name.
macro_rules! forward {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {$(
        #[doc = concat!("See [`Dataset::", stringify!($name), "`].")]
        fn $name(self, $($argument: $type),*) -> Dataset {
            self.dataset().$name($($argument),*)
        }
    )*};
}

/// The methods of [`Dataset`] that a pipeline may start with, for every [`Source`].
///
/// ```
/// use phalanx_data::{SourceExt, csv};
/// let folder = tempfile::tempdir().unwrap();
/// std::fs::write(folder.path().join("a.csv"), "age,income\n39,0\n50,1\n").unwrap();
/// let data = csv(folder.path().join("*.csv")).label("income").shuffle(10_000).repeat().batch(3);
/// let batch = data.iter()?.next().unwrap()?;
/// assert_eq!((batch.rows(), batch.label().unwrap().rows()), (3, 3));
/// # Ok::<(), phalanx_base::Error>(())
/// ```
pub trait SourceExt: Source + Sized + 'static {
    /// Returns the rows, file after file.
    fn dataset(self) -> Dataset {
        Dataset::from(self)
    }

    /// Returns the rows, interleaved from `cycle` files at a time; see [`Dataset::from_source_interleaved`].
    fn interleave_files(self, cycle: usize) -> Dataset {
        Dataset::from_source_interleaved(Arc::new(self), cycle)
    }

    forward! {
        shard(share: impl Into<ShardSpec>);
        shuffle(buffer: usize);
        shuffle_seeded(buffer: usize, seed: u64);
        repeat();
        batch(size: usize);
        map(function: impl Fn(Batch) -> Result<Batch> + Send + Sync + 'static);
        map_batches(parallel: Parallel, function: impl Fn(Batch) -> Result<Batch> + Send + Sync + 'static);
        filter(keep: impl Fn(&Batch) -> Result<bool> + Send + Sync + 'static);
        take(count: u64);
        skip(count: u64);
        prefetch(buffer: usize);
        cache();
    }

    /// Starts a pass over the rows; see [`Dataset::iter`].
    ///
    /// # Errors
    /// When a file cannot be opened.
    fn iter(self) -> Result<DatasetIter> {
        self.dataset().iter()
    }
}

impl<S: Source + Sized + 'static> SourceExt for S {}
