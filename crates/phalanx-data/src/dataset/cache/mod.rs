//! `cache`: keeps elements in memory or in a file.
//!
//! A cache is complete only after one whole pass. Its input is always opened for the same pass, whatever pass or round
//! asked for it: then a cache filled again after a restart holds the same elements in the same order.

mod file;
mod memory;

use super::node::{Context, ElementKind, Node, Op, Shardability, Stage, open_input};
use crate::position::Loader;
use crate::{Batch, Dataset};
use memory::{FillStage, MemoryStage};
use phalanx_base::Result;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// The elements of a complete cache.
type Complete = Arc<Mutex<Option<Arc<Vec<Batch>>>>>;

#[derive(Default)]
struct CacheOp {
    complete: Complete,
}

/// What a cache's input is told: nothing of the pass it is filled in.
fn fixed(cx: Context) -> Context {
    Context { epoch: 0, ..cx }
}

/// The elements handed out before, which a cache leaves out again.
fn resume(mut stage: Box<dyn Stage>, kind: ElementKind, from: Option<&mut Loader<'_>>) -> Result<Box<dyn Stage>> {
    if let Some(from) = from {
        stage.skip(from.u64()?, kind)?;
    }
    Ok(stage)
}

impl Op for CacheOp {
    fn describe(&self) -> String {
        "cache".to_string()
    }

    fn open(&self, inputs: &[Node], cx: Context, from: Option<&mut Loader<'_>>) -> Result<Box<dyn Stage>> {
        let kind = inputs[0].kind();
        let complete = self.complete.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let stage: Box<dyn Stage> = match complete {
            Some(chunks) => Box::new(MemoryStage::new(chunks, kind)),
            None => Box::new(FillStage::new(open_input(inputs, fixed(cx), None)?, self.complete.clone(), kind)),
        };
        resume(stage, kind, from)
    }

    fn renewed(&self) -> Option<Arc<dyn Op>> {
        Some(Arc::new(Self::default()))
    }
}

struct FileCacheOp {
    path: PathBuf,
}

impl Op for FileCacheOp {
    fn describe(&self) -> String {
        format!("cache({})", self.path.display())
    }

    fn open(&self, inputs: &[Node], cx: Context, from: Option<&mut Loader<'_>>) -> Result<Box<dyn Stage>> {
        let (kind, owner) = (inputs[0].kind(), inputs[0].describe());
        let stage: Box<dyn Stage> = match file::FileStage::open(&self.path, kind, &owner)? {
            Some(stage) => Box::new(stage),
            None => {
                let upstream = open_input(inputs, fixed(cx), None)?;
                Box::new(file::WriteStage::new(upstream, &self.path, kind, &owner)?)
            }
        };
        resume(stage, kind, from)
    }

    /// Workers that share a file system must agree on what the file holds: the whole input.
    fn shardability(&self) -> Shardability {
        Shardability::ByOrder
    }
}

impl Dataset {
    /// Keeps the elements in memory; after the first complete pass the stages before are not run again.
    ///
    /// ```
    /// use phalanx_data::Dataset;
    /// let data = Dataset::range(0, 4, 1).cache();
    /// assert_eq!((data.iter()?.count(), data.iter()?.count()), (4, 4));
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    #[must_use]
    pub fn cache(self) -> Self {
        self.then(CacheOp::default())
    }

    /// Keeps the elements in a file, also for later processes.
    ///
    /// The file appears under its name when a whole pass has been written, never before. A file that another pipeline
    /// wrote is an error.
    ///
    /// ```
    /// use phalanx_data::Dataset;
    /// let folder = std::env::temp_dir().join(format!("px-cache-doc-{}", std::process::id()));
    /// std::fs::create_dir_all(&folder).unwrap();
    /// let data = Dataset::range(0, 4, 1).cache_in(folder.join("numbers"));
    /// assert_eq!((data.iter()?.count(), data.iter()?.count()), (4, 4));
    /// std::fs::remove_dir_all(folder).unwrap();
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    #[must_use]
    pub fn cache_in(self, path: impl Into<PathBuf>) -> Self {
        self.then(FileCacheOp { path: path.into() })
    }
}
